"""Checkpoints of the paper's model families that transformers runs: DETR, Deformable DETR, Mask2Former and ViTPose.

Of a detector's classes only `person` is kept, with every score: average recall depends on their order. Poses are
estimated on the annotated boxes, as in the paper. Images are resized by Pillow; torchvision is not needed.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fp2.extension import Checkpoint, Fp2Error, device_of, resolve_checkpoint, with_weights
from fp2.methods.fhibe.narrow.detection import MAX_DETECTIONS
from fp2.methods.fhibe.narrow.models import ImageInput, ModelSpec
from fp2.methods.fhibe.narrow.predictions import Prediction, encode_mask

if TYPE_CHECKING:
    from fp2.extension import Config

_DTYPES = ("float32", "float16", "bfloat16")


class CheckpointModel:
    """A checkpoint that is loaded with the first image."""

    auto: ClassVar[str]
    types: ClassVar[tuple[str, ...]]
    tasks: ClassVar[tuple[str, ...]]
    similarity: ClassVar[str] = "cosine"

    def __init__(self, spec: ModelSpec, config: Config) -> None:
        where = f"narrow model {spec.name}"
        if not spec.id:
            raise Fp2Error("id is missing", where=where, fix="Give a folder or a Hugging Face id (owner/name)")
        if spec.dtype not in _DTYPES:
            raise Fp2Error(f"unknown dtype {spec.dtype!r}", where=where, fix=f"Choose from: {', '.join(_DTYPES)}")
        self._spec = spec
        self._device_name = device_of(config.engine)
        self._checkpoint: Checkpoint = resolve_checkpoint(spec.id, spec.revision)
        model_type = self._checkpoint.model_type
        if model_type not in self.types:
            what = (
                f"the model {self._checkpoint.id} is {model_type or 'of no named type'}, not {' or '.join(self.types)}"
            )
            raise Fp2Error(what, where=where, fix="Set target and id to the same kind of model")
        self._loaded: tuple[Any, Any, str] | None = None

    def identity(self) -> dict[str, Any]:
        """Return the digests of weights and processor, and how they are used."""
        digests = self._checkpoint.identity()
        digests.pop("chat_template", None)
        used = {
            "family": self._checkpoint.model_type,
            "dtype": self._spec.dtype,
            "class": self._spec.person,
            "backend": "pil",
        }
        return {**digests, **used, "transformers": version("transformers"), "method": 1}

    def close(self) -> None:
        """Release the model."""
        self._loaded = None

    def _model(self) -> tuple[Any, Any, str]:
        """Return processor, model and device, which the first call loads."""
        if self._loaded is None:
            from fp2.extension import resolve_device, silence_loaders

            silence_loaders()
            device, pickled = resolve_device(self._device_name), self._spec.pickled_weights
            option = f"pickled_weights of the narrow model {self._spec.name}"
            path = with_weights(self._checkpoint, pickled=pickled, option=option)
            transformers, torch = importlib.import_module("transformers"), importlib.import_module("torch")
            try:
                processor = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
                kind = getattr(transformers, self.auto)
                model = kind.from_pretrained(
                    path,
                    dtype=getattr(torch, self._spec.dtype),
                    use_safetensors=None if pickled else True,
                    weights_only=True,
                )
            except ImportError as error:
                raise self._missing_package(error) from None
            except (OSError, ValueError, RuntimeError, KeyError) as error:
                reason = (str(error) or type(error).__name__).strip().splitlines()[0]
                raise Fp2Error(f"the model {self._checkpoint.id} cannot be loaded: {reason}") from error
            self._loaded = (processor, model.to(device).eval(), device)
        return self._loaded

    def _missing_package(self, error: ImportError) -> Fp2Error:
        """Return the error of a checkpoint that needs a package that is not used here."""
        fix = "Give a checkpoint whose backbone is transformers' own: another revision or folder (task.files.model)"
        package = "timm" if "timm" in str(error) else "another package"
        return Fp2Error(f"the model {self._checkpoint.id} needs {package}, which is not installed", fix=fix)

    def _run(self, inputs: Any) -> tuple[Any, Any]:
        """Return the processor, and the model's outputs for its inputs."""
        torch = importlib.import_module("torch")
        processor, model, device = self._model()
        ready = {name: value.to(device) for name, value in inputs.items() if hasattr(value, "to")}
        ready["pixel_values"] = ready["pixel_values"].to(model.dtype)
        with torch.inference_mode():
            return processor, model(**ready)

    def _person(self) -> int:
        """Return the number of the class `person`."""
        names = self._model()[1].config.id2label
        for number, name in names.items():
            if str(name).lower() == self._spec.person.lower():
                return int(number)
        what = f"the model {self._checkpoint.id} has no class {self._spec.person!r}"
        raise Fp2Error(what, where=f"narrow model {self._spec.name}", fix="Set person to the name of its class")


class Detector(CheckpointModel):
    """DETR and Deformable DETR: boxes of people."""

    auto = "AutoModelForObjectDetection"
    types = ("detr", "deformable_detr")
    tasks = ("person_detection",)

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return the boxes of the class person, highest score first."""
        image = shown.image
        processor, outputs = self._run(self._model()[0](images=[image], return_tensors="pt"))
        sizes = [(image.height, image.width)]
        extra = {"top_k": MAX_DETECTIONS} if self._checkpoint.model_type == "deformable_detr" else {}
        (result,) = processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=sizes, **extra)
        keep = (result["labels"] == self._person()).cpu().numpy()
        corners = result["boxes"].float().cpu().numpy()[keep].astype(np.float64)
        scores = result["scores"].float().cpu().numpy()[keep]
        boxes = np.concatenate([corners[:, :2], np.clip(corners[:, 2:] - corners[:, :2], 0, None)], axis=1)
        order = np.argsort(-scores, kind="stable")[:MAX_DETECTIONS]
        return [Prediction("", score=float(scores[n]), box=tuple(boxes[n].tolist())) for n in order]


class Segmenter(CheckpointModel):
    """Mask2Former: masks of people."""

    auto = "AutoModelForUniversalSegmentation"
    types = ("mask2former",)
    tasks = ("person_segmentation",)

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return the masks of the class person, highest score first."""
        image = shown.image
        processor, outputs = self._run(self._model()[0](images=[image], return_tensors="pt"))
        (result,) = processor.post_process_instance_segmentation(
            outputs, threshold=0.0, target_sizes=[(image.height, image.width)], return_binary_maps=True
        )
        person, maps = self._person(), result["segmentation"]
        scores = {
            n: float(info["score"]) for n, info in enumerate(result["segments_info"]) if int(info["label_id"]) == person
        }
        order = sorted(scores, key=lambda n: -scores[n])[:MAX_DETECTIONS]
        return [Prediction("", score=scores[n], mask=encode_mask(maps[n].cpu().numpy() > 0)) for n in order]


class PoseEstimator(CheckpointModel):
    """ViTPose on annotated boxes: COCO's 17 keypoints of each person."""

    auto = "VitPoseForPoseEstimation"
    types = ("vitpose",)
    tasks = ("pose_estimation",)

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return one pose for each person with a box."""
        torch = importlib.import_module("torch")
        boxed = [(person, box) for person, box in zip(shown.people, shown.boxes, strict=True) if box is not None]
        if not boxed:
            return []
        processor, model, _ = self._model()
        if int(model.config.num_labels) != 17:
            raise Fp2Error(f"the model {self._checkpoint.id} has {model.config.num_labels} keypoints, not COCO's 17")
        boxes = [[list(box) for _, box in boxed]]
        inputs = dict(processor(images=[shown.image], boxes=boxes, return_tensors="pt"))
        if getattr(model.config.backbone_config, "num_experts", 1) > 1:  # ViTPose++: the expert trained on COCO
            inputs["dataset_index"] = torch.zeros(len(boxed), dtype=torch.int64)
        processor, outputs = self._run(inputs)
        outputs.heatmaps = outputs.heatmaps.float()
        (result,) = processor.post_process_pose_estimation(outputs, boxes=boxes)
        return [
            Prediction(
                "",
                subject_id=person.subject_id,
                score=float(pose["scores"].float().mean()),
                keypoints=pose["keypoints"].double().cpu().numpy(),
            )
            for (person, _), pose in zip(boxed, result, strict=True)
        ]
