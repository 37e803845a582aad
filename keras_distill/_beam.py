"""Apache Beam, where many processes or machines share the work."""

import importlib.util
import threading


def require():
    """Raises `ImportError` if Apache Beam is not installed."""
    if importlib.util.find_spec("apache_beam") is None:
        raise ImportError(
            "A pipeline needs Apache Beam: pip install 'keras-distill[beam]'."
        )


def check_runner(name):
    """Raises `ValueError` if Beam knows no runner of this name.

    Args:
        name: String, as Beam's own `--runner`: a name of Beam's, or the path of
            a class.
    """
    require()
    from apache_beam.runners import create_runner

    try:
        create_runner(name)
    except (ValueError, ImportError, AttributeError, TypeError) as error:
        raise ValueError(
            "`--runner` must be a runner that Apache Beam knows, such as "
            f"DirectRunner or FlinkRunner. Received: {name!r:.200}"
        ) from error


def run(function, items, flags=()):
    """Calls `function` with each of `items`, in the workers of a pipeline.

    Args:
        function: Callable that Beam can pickle. What it returns is lost.
        items: List.
        flags: List of Beam's own flags, such as `["--runner=FlinkRunner"]` or
            `["--direct_num_workers=4",
            "--direct_running_mode=multi_processing"]`. By default Beam's
            DirectRunner runs in this process.

    Raises:
        ImportError: if Apache Beam is not installed.
        RuntimeError: if a worker process of the DirectRunner died.
    """
    require()
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    options = PipelineOptions(["--runner=DirectRunner", *flags])

    def work():
        with beam.Pipeline(options=options) as pipeline:
            _ = (
                pipeline
                | "Items" >> beam.Create(list(items))
                | "Spread" >> beam.Reshuffle()
                | "Work" >> beam.Map(function)
            )

    _unless_a_thread_fails(work)


def _unless_a_thread_fails(work):
    """Calls `work`, and raises what it or a thread that it started raises.

    Where a worker of the DirectRunner dies, the thread that waited for it says
    so, and the pipeline waits for its answer for ever.
    """
    ended, failures = threading.Event(), []

    def failed(error):
        failures.append(error)
        ended.set()

    def watched():
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below.
            failed(error)
        ended.set()

    def of_thread(arguments):
        if isinstance(arguments.exc_value, RuntimeError):
            failed(arguments.exc_value)
        else:
            others(arguments)

    others, threading.excepthook = threading.excepthook, of_thread
    try:
        threading.Thread(target=watched, daemon=True).start()
        ended.wait()
    finally:
        threading.excepthook = others
    if failures:
        raise failures[0]
