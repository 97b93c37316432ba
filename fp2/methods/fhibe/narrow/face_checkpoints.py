"""Checkpoints that transformers runs on aligned face crops: a face parser, and a super-resolution model.

Neither is one of the paper's (DML-CSR, GFP-GAN, GPEN), whose code is not in transformers: they make the two tasks run
here, with trained models of other authors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from fp2.extension import Fp2Error, Table, nearest, read_options
from fp2.methods.fhibe.narrow.checkpoints import CheckpointModel
from fp2.methods.fhibe.narrow.faces import PARTS
from fp2.methods.fhibe.narrow.models import ImageInput, ModelSpec
from fp2.methods.fhibe.narrow.predictions import Pixels, Prediction

if TYPE_CHECKING:
    from fp2.extension import Config


@dataclass(frozen=True)
class ParserOptions:
    """`labels`: name of a class of the model -> part of CelebAMask-HQ, where the names differ."""

    labels: Table = field(default_factory=dict)


class FaceParser(CheckpointModel):
    """Semantic segmentation into CelebAMask-HQ's parts of a face, such as SegFormer's."""

    auto = "AutoModelForSemanticSegmentation"
    types = ("segformer", "upernet", "beit", "dpt")
    tasks = ("face_parsing",)

    def __init__(self, spec: ModelSpec, config: Config) -> None:
        super().__init__(spec, config)
        self._labels = read_options(ParserOptions, spec.options, f"narrow model {spec.name}").labels
        self._part_of: Pixels | None = None

    def identity(self) -> dict[str, Any]:
        """Return the digests of weights and processor, and how classes are named."""
        return {**super().identity(), "class": "", "labels": dict(self._labels)}

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return the map of parts of the crop, at its size."""
        image = shown.image
        processor, outputs = self._run(self._model()[0](images=[image], return_tensors="pt"))
        outputs.logits = outputs.logits.float()
        (found,) = processor.post_process_semantic_segmentation(outputs, target_sizes=[(image.height, image.width)])
        return [Prediction("", subject_id="0", labels=self._parts()[found.cpu().numpy()])]

    def _parts(self) -> Pixels:
        """Return the part of each class of the model.

        Raises
        ------
        Fp2Error
            If a class is no part of CelebAMask-HQ.
        """
        if self._part_of is None:
            names = self._model()[1].config.id2label
            table = np.zeros(max(int(n) for n in names) + 1, dtype=np.uint8)
            for n, name in names.items():
                part = str(self._labels.get(str(name), name))
                if part not in PARTS:
                    what = f"the class {str(name)!r} of {self._checkpoint.id} is no part of a face"
                    fix = f"Map it: options: {{labels: {{{name}: {nearest(part, PARTS)}}}}}"
                    raise Fp2Error(what, where=f"narrow model {self._spec.name}", fix=fix)
                table[int(n)] = PARTS.index(part)
            self._part_of = table
        return self._part_of


class SuperResolution(CheckpointModel):
    """Swin2SR: the face crop, made smaller by the model's factor (bicubically), and enlarged by the model."""

    auto = "AutoModelForImageToImage"
    types = ("swin2sr",)
    tasks = ("face_super_resolution",)

    def identity(self) -> dict[str, Any]:
        """Return the digests of weights and processor, and what the model is shown."""
        return {**super().identity(), "class": "", "shown": "bicubic, smaller by the model's factor"}

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return the enlarged image, at the size of the crop.

        Raises
        ------
        Fp2Error
            If the model does not enlarge.
        """
        image, model = shown.image, self._model()[1]
        factor = int(model.config.upscale)
        if factor < 2:
            what = f"the model {self._checkpoint.id} does not enlarge (its factor is {factor})"
            raise Fp2Error(what, where=f"narrow model {self._spec.name}")
        size = (max(1, image.width // factor), max(1, image.height // factor))
        small = image.resize(size, Image.Resampling.BICUBIC)
        _, outputs = self._run(self._model()[0](images=[small], return_tensors="pt"))
        made = outputs.reconstruction[0].float().clamp(0, 1).cpu().numpy()
        pixels = np.rint(made[:, : size[1] * factor, : size[0] * factor].transpose(1, 2, 0) * 255).astype(np.uint8)
        if pixels.shape[:2] != (image.height, image.width):  # a crop whose side the factor does not divide
            pixels = np.asarray(Image.fromarray(pixels).resize(image.size, Image.Resampling.BICUBIC))
        return [Prediction("", subject_id="0", pixels=pixels)]
