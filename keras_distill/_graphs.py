"""What is private in the graphs of functional models, with a public face."""


def producer(tensor):
    """The layer or operation whose output a symbolic tensor is.

    Keras keeps it on the tensor and shows it only in a model's config.
    """
    return tensor._keras_history.operation


def reads_output(model, layer, index):
    """Whether `model` uses output `index` of `layer`, one of its operations.

    A functional model knows its layers but not, in public, which output of
    theirs goes where.

    Args:
        model: Functional `keras.Model`.
        layer: Operation with several outputs.
        index: Integer, of its outputs as they are flattened.
    """
    read = {id(tensor) for tensor in model.outputs}
    for operation in model.operations:
        for node in operation._inbound_nodes:
            read.update(id(tensor) for tensor in node.input_tensors)
    return any(
        id(node.output_tensors[index]) in read
        for node in layer._inbound_nodes
        if node.output_tensors
    )


def graph_nodes(model):
    """The nodes of a functional or Sequential model, in the order they run.

    In public a model tells its operations, not how often each is called.

    Args:
        model: `keras.Model`.

    Returns:
        List of nodes with `operation`, `input_tensors` and `outputs`, without
        those of the model's inputs.
    """
    graph = getattr(model, "_functional", None) or model
    known = {id(x) for x in graph.inputs}
    found = []
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            computable = all(id(x) in known for x in node.input_tensors)
            if node.operation is None or node.is_input or not computable:
                continue
            known.update(id(x) for x in node.outputs)
            found.append(node)
    return found
