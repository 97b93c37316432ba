"""The data sets of the benchmarks: their options; what they read is in `readers`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from fp2.extension import DataOptions, Dataset, DataSource, LoadContext, Local, Required


@dataclass(frozen=True, kw_only=True)
class VisoGenderOptions(DataOptions):
    """`root` is the checkout with both lists, `image_root` the folder of the images, each named by its IDX."""

    root: Annotated[Path, Local(), Required("the checkout of VisoGender's repository")]
    image_root: Annotated[Path | None, Local()] = None


class VisoGender(DataSource[VisoGenderOptions]):
    """The images of VisoGender, by its lists OO and OP."""

    Options = VisoGenderOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the images of both lists; see `load_visogender`."""
        from fp2.methods.benchmarks.readers import load_visogender

        root, images = self.options.root.expanduser(), self.options.image_root
        return load_visogender(root, images.expanduser() if images else None, context.images_needed)


@dataclass(frozen=True, kw_only=True)
class HubOptions(DataOptions):
    """`root` is the folder of the data set as the hub has it: Parquet files, or `metadata.csv` and the images."""

    root: Annotated[Path, Local(), Required("the folder of the data set")]


class SbBench(DataSource[HubOptions]):
    """The items of SB-Bench."""

    Options = HubOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the items; see `load_sb_bench`."""
        from fp2.methods.benchmarks.readers import load_sb_bench

        with context.progress.counter("Extracting the images (once)") as tick:
            return load_sb_bench(self.options.root.expanduser(), context.cache / "hf", tick, context.images_needed)


@dataclass(frozen=True, kw_only=True)
class GenderBiasVlOptions(DataOptions):
    """`root` is above the question files and the list of pairs, `part` one of the three sets of questions."""

    root: Annotated[Path, Local(), Required("the folder with test_meta_file and occ_merge_filter_sim.csv")]
    image_root: Annotated[Path | None, Local()] = None
    part: Literal["VLbias", "Vbias", "Lbias"] = "VLbias"


class GenderBiasVl(DataSource[GenderBiasVlOptions]):
    """The questions of GenderBias-VL."""

    Options = GenderBiasVlOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the questions of one part; see `load_genderbias_vl`."""
        from fp2.methods.benchmarks.readers import load_genderbias_vl

        chosen = self.options
        images = chosen.image_root.expanduser() if chosen.image_root else None
        return load_genderbias_vl(chosen.root.expanduser(), chosen.part, images, context.images_needed)


class SocialCounterfactuals(DataSource[HubOptions]):
    """The counterfactual sets of SocialCounterfactuals."""

    Options = HubOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the images; see `load_social_counterfactuals`."""
        from fp2.methods.benchmarks.readers import load_social_counterfactuals

        root, cache, needed = self.options.root.expanduser(), context.cache / "hf", context.images_needed
        with context.progress.counter("Extracting the images (once)") as tick:
            return load_social_counterfactuals(root, cache, tick, needed)


@dataclass(frozen=True, kw_only=True)
class VlGenderOptions(DataOptions):
    """`root` has the sets of images, `checkout` the prompts; `task` is what is asked about each image."""

    root: Annotated[Path, Local(), Required("the folder of the image sets")]
    checkout: Annotated[Path, Local(), Required("the checkout of vla-gender-bias")]
    task: Literal["sentiment", "skills", "occupations", "sentiment_gendered"] = "skills"
    per_gender: Annotated[int, Ge(1)] = 500
    prompt_seed: int = 42


class VlGender(DataSource[VlGenderOptions]):
    """The images and prompts of VL-Gender."""

    Options = VlGenderOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return each image once for each value of the task; see `load_vl_gender`."""
        from fp2.methods.benchmarks.readers import load_vl_gender

        chosen = self.options
        folders = (chosen.root.expanduser(), chosen.checkout.expanduser())
        return load_vl_gender(*folders, chosen.task, chosen.per_gender, chosen.prompt_seed, context.images_needed)


@dataclass(frozen=True, kw_only=True)
class PairsOptions(DataOptions):
    """`root` is the checkout of PAIRS, `questions` HELM's file of its scenario."""

    root: Annotated[Path, Local(), Required("the checkout of katiefraser/PAIRS")]
    questions: Annotated[Path, Local(), Required("pairs_scenario.py of a checkout of HELM")]


class Pairs(DataSource[PairsOptions]):
    """The images of PAIRS, with HELM's questions."""

    Options = PairsOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return each image once for each question; see `load_pairs`."""
        from fp2.methods.benchmarks.question_files import load_pairs

        chosen = self.options
        return load_pairs(chosen.root.expanduser(), chosen.questions.expanduser(), context.images_needed)


class VlBiasBench(DataSource[HubOptions]):
    """The closed questions of VLBiasBench."""

    Options = HubOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the questions with an ambiguous context; see `load_vlbiasbench`."""
        from fp2.methods.benchmarks.question_files import load_vlbiasbench

        return load_vlbiasbench(self.options.root.expanduser(), context.images_needed)
