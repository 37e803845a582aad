"""How far several devices and workers are from one: a table.

    python tests/benchmarks/distribution.py

The largest difference of what is logged and of the weights after 20 steps, for
each kind of devices and each feature of the Distillers.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import tiny_devices

for backend, (alone, *kinds) in tiny_devices.KINDS.items():
    with tempfile.TemporaryDirectory() as folder:
        worst = tiny_devices.differences(backend, pathlib.Path(folder))
    features = dict.fromkeys(feature for _, feature in worst)
    print(f"\n| {backend}, from {alone!r} | " + " | ".join(kinds) + " |")
    print("|---|" + "---:|" * len(kinds))
    for feature in features:
        cells = [
            " / ".join(f"{value:.0e}" for value in worst[kind, feature])
            for kind in kinds
        ]
        print(f"| {feature.replace('_', ' ')} | " + " | ".join(cells) + " |")
