"""The models of a report, as `report.json` lists them."""

from keras_distill.experiments.report.numbers import count

TEACHER = "teacher"


def models(found):
    """One entry for the teacher, each linear model, each student and arm.

    Returns:
        List of dicts with `name`, `description`, `labels`, `seeds`,
        `dev_score`, `test_score` (lists, one value a seed; under the name of
        the measure, too: `test_accuracy`), `parameters`, `files`.
    """
    teacher, label_noun = found["teacher"], found["task"]["label_noun"]
    told = [
        {
            "name": TEACHER,
            "description": TEACHER,
            "labels": found["task"]["labelled_train_rows"],
            "seeds": [],
            "dev_score": [teacher["dev_score"]],
            "test_score": [teacher["test_score"]],
            "parameters": teacher["parameters"],
            "files": found["exports"].get(TEACHER, {}).get("files", {}),
        }
    ]
    for name, floor in found["floors"].items():
        told.append(
            {
                "name": name,
                "description": f"{floor['model']}, "
                f"{count(floor['labels'], label_noun)}",
                "labels": floor["labels"],
                "seeds": floor["seeds"],
                "dev_score": floor["dev_score"]["values"],
                "test_score": floor["test_score"]["values"],
                "parameters": floor["parameters"],
                "size_bytes": floor["size_bytes"],
                "latency_ms": floor["latency_ms"],
                "files": {},
            }
        )
    for row in found["rows"]:
        export = found["exports"].get(row["student"], {})
        is_exported = export.get("arm") == row["arm"]
        told.append(
            {
                "name": f"{row['student']}, {row['arm']}",
                "description": f"{row['learns_from']}, "
                f"{count(row['labels'], label_noun)}",
                "labels": row["labels"],
                "seeds": row["seeds"],
                "dev_score": row["dev_score"]["values"],
                "test_score": row["test_score"]["values"],
                "failed": row["failed"],
                "parameters": row["parameters"],
                "files": export["files"] if is_exported else {},
            }
        )
    return told
