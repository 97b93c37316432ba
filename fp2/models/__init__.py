"""The bundled model `peeps_vlm` and the effects that were planted in it.

The folder `peeps_vlm` is a checkpoint: every file at its top level is part of the digest that pins the model, Python
files included, so the code that reads its `planted.yaml` is here.
"""
