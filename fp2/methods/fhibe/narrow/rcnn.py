"""Faster R-CNN and Mask R-CNN of torchvision: boxes and masks of people.

torchvision is not required by fp2, and one that does not match torch breaks transformers, so that it is in no extra.
Networks, preparation of images and limits (score above 0.05, 100 objects an image) are torchvision's. Weights trained
on COCO are those that torchvision's table names, or a file of the user's with a state dict of the same network.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from fp2.extension import Fp2Error, Range, device_of, nearest, read_options, sha256_file
from fp2.methods.fhibe.narrow.models import ImageInput, ModelSpec
from fp2.methods.fhibe.narrow.predictions import Prediction, encode_mask

if TYPE_CHECKING:
    from fp2.extension import Config

PUBLISHED = "COCO_V1"
NETWORKS = {
    "fasterrcnn_resnet50_fpn": "FasterRCNN_ResNet50_FPN_Weights",
    "fasterrcnn_resnet50_fpn_v2": "FasterRCNN_ResNet50_FPN_V2_Weights",
    "maskrcnn_resnet50_fpn": "MaskRCNN_ResNet50_FPN_Weights",
    "maskrcnn_resnet50_fpn_v2": "MaskRCNN_ResNet50_FPN_V2_Weights",
}
"""torchvision's functions that build a network, and its tables of weights."""
_FITTING = "Install the torchvision for this torch"


@dataclass(frozen=True)
class RcnnOptions:
    """`options` of a model file.

    Attributes
    ----------
    network : str
        A name of `NETWORKS`.
    min_size, max_size : int
        Images are resized to a shorter side of `min_size`, and a longer one of at most `max_size`.
    score : float
        Objects with a lower score are dropped.
    mask : float
        Pixels of a mask have at least this probability.
    eps : float, optional
        What batch normalisation adds to the variances. None is what torchvision takes with its own weights: 0, and 1e-5
        for networks of version 2. Weights that were trained otherwise need 1e-5, as a rule.
    """

    network: str
    min_size: Annotated[int, Range(16)] = 800
    max_size: Annotated[int, Range(16)] = 1333
    score: Annotated[float, Range(0, 1)] = 0.05
    mask: Annotated[float, Range(0, 1)] = 0.5
    eps: Annotated[float, Range(0)] | None = None

    @property
    def added(self) -> float:
        """What batch normalisation adds to the variances."""
        return (1e-5 if self.network.endswith("_v2") else 0.0) if self.eps is None else self.eps


class Rcnn:
    """A network of torchvision, which is loaded with the first image."""

    tasks: ClassVar[tuple[str, ...]] = ("person_detection", "person_segmentation")
    similarity: ClassVar[str] = "cosine"

    def __init__(self, spec: ModelSpec, config: Config) -> None:
        self._where = f"narrow model {spec.name}"
        self._options = read_options(RcnnOptions, spec.options, self._where)
        network = self._options.network
        if network not in NETWORKS:
            raise Fp2Error(f"unknown network {network!r}", where=self._where, fix=nearest(network, NETWORKS))
        if spec.task == "person_segmentation" and not network.startswith("mask"):
            raise Fp2Error(f"{network} has no masks", where=self._where, fix="Choose maskrcnn_resnet50_fpn")
        if spec.dtype != "float32":
            raise Fp2Error(f"dtype is {spec.dtype!r}", where=self._where, fix="Set it to float32, as torchvision's is")
        if importlib.util.find_spec("torchvision") is None:
            raise Fp2Error("torchvision is not installed", where=self._where, fix=_FITTING)
        self._spec = spec
        self._device_name = device_of(config.engine)
        if spec.id != PUBLISHED and not (spec.id and Path(spec.id).expanduser().is_file()):
            fix = f"Give a file (.pth or .safetensors), or id: {PUBLISHED} for torchvision's weights"
            raise Fp2Error(f"there is no weights file {spec.id!r}", where=self._where, fix=fix)
        self._network: tuple[Any, str] | None = None

    def identity(self) -> dict[str, Any]:
        """Return the digest of the weights, the versions, and how they are used."""
        return {
            "model": self._options.network,
            "family": "torchvision",
            "weights": sha256_file(self._file),
            "class": self._spec.person,
            "options": asdict(self._options) | {"eps": self._options.added},
            "torchvision": version("torchvision"),
            "method": 1,
        }

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return the boxes or masks of the class `person`, highest score first."""
        torch = importlib.import_module("torch")
        network, device = self._loaded()
        pixels = torch.from_numpy(np.array(shown.image)).permute(2, 0, 1).to(device) / 255
        with torch.inference_mode():
            (found,) = network([pixels])
        rows = (found["labels"] == self._person).nonzero().flatten().tolist()
        scores, corners = found["scores"].cpu().numpy(), found["boxes"].cpu().numpy().astype(np.float64)
        order = sorted(rows, key=lambda row: -scores[row])
        if self._spec.task == "person_segmentation":
            masks, limit = found["masks"][:, 0], self._options.mask
            return [
                Prediction("", score=float(scores[row]), mask=encode_mask((masks[row] >= limit).cpu().numpy()))
                for row in order
            ]
        corners[:, 2:] -= corners[:, :2]
        return [Prediction("", score=float(scores[row]), box=tuple(corners[row].tolist())) for row in order]

    def close(self) -> None:
        """Release the network."""
        self._network = None

    @cached_property
    def _detection(self) -> Any:
        """torchvision's module of detection networks."""
        try:
            return importlib.import_module("torchvision.models.detection")
        except Exception as error:  # of a torchvision that does not match torch: RuntimeError, OSError, AttributeError
            what = f"the installed torchvision cannot be imported: {str(error).splitlines()[0][:200]}"
            raise Fp2Error(what, where=self._where, fix=_FITTING) from error

    @cached_property
    def _table(self) -> Any:
        """The published weights of the network, with their address and the names of the classes."""
        return getattr(getattr(self._detection, NETWORKS[self._options.network]), PUBLISHED)

    @cached_property
    def _person(self) -> int:
        """The number of the class `person`."""
        names = list(self._table.meta["categories"])
        if self._spec.person not in names:
            what = f"COCO has no class {self._spec.person!r}"
            raise Fp2Error(what, where=self._where, fix=nearest(self._spec.person, names))
        return names.index(self._spec.person)

    @cached_property
    def _file(self) -> Path:
        """The file of the weights; published ones are fetched into torch's folder once."""
        if self._spec.id != PUBLISHED:
            return Path(str(self._spec.id)).expanduser()
        hub = importlib.import_module("torch.hub")
        url = str(self._table.url)
        file = Path(hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
        if not file.is_file():
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                hub.download_url_to_file(url, str(file), file.stem.rpartition("-")[2], progress=False)
            except (OSError, RuntimeError) as error:
                what = f"the weights {file.name} are not here and cannot be fetched: {str(error).splitlines()[0]}"
                fix = f"Download {url} and give the file as id (task.files.model), or put it into {file.parent}"
                raise Fp2Error(what, where=self._where, fix=fix) from error
        return file

    def _loaded(self) -> tuple[Any, str]:
        """Return network and device, which the first call loads."""
        if self._network is None:
            from fp2.extension import resolve_device

            torch = importlib.import_module("torch")
            options, device = self._options, resolve_device(self._device_name)
            network = getattr(self._detection, options.network)(
                weights=None, weights_backbone=None, num_classes=len(self._table.meta["categories"]),
                min_size=options.min_size, max_size=options.max_size, box_score_thresh=options.score,
            )  # fmt: skip
            try:
                network.load_state_dict(self._state())
            except Exception as error:  # unpickling and loading raise many kinds; each is about this file
                reason = " ".join(str(error).split())[:200]
                what = f"{self._file.name} cannot be read as weights of {options.network}: {reason}"
                raise Fp2Error(
                    what, where=self._where, fix="Give the state dict of this network, of 91 classes"
                ) from error
            for module in network.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.eps = options.added
            self._network = (network.to(device).eval(), device)
        return self._network

    def _state(self) -> Any:
        """Return the state dict of the file; of a pickled one only tensors are read."""
        if self._file.suffix == ".safetensors":
            return importlib.import_module("safetensors.torch").load_file(self._file)
        return importlib.import_module("torch").load(self._file, map_location="cpu", weights_only=True)
