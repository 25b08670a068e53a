"""What the regions of Desikan-Killiany, Destrieux and FreeSurfer's segmentation are called."""

from __future__ import annotations

import re
from dataclasses import dataclass

ATLASES = {"desikan-killiany": "Desikan-Killiany", "destrieux": "Destrieux"}

DESIKAN_KILLIANY = {
    "bankssts": "banks of the superior temporal sulcus",
    "caudalanteriorcingulate": "caudal anterior cingulate",
    "caudalmiddlefrontal": "caudal middle frontal gyrus",
    "cuneus": "cuneus",
    "entorhinal": "entorhinal cortex",
    "frontalpole": "frontal pole",
    "fusiform": "fusiform gyrus",
    "inferiorparietal": "inferior parietal lobule",
    "inferiortemporal": "inferior temporal gyrus",
    "insula": "insula",
    "isthmuscingulate": "isthmus of the cingulate",
    "lateraloccipital": "lateral occipital cortex",
    "lateralorbitofrontal": "lateral orbitofrontal cortex",
    "lingual": "lingual gyrus",
    "medialorbitofrontal": "medial orbitofrontal cortex",
    "middletemporal": "middle temporal gyrus",
    "paracentral": "paracentral lobule",
    "parahippocampal": "parahippocampal gyrus",
    "parsopercularis": "pars opercularis",
    "parsorbitalis": "pars orbitalis",
    "parstriangularis": "pars triangularis",
    "pericalcarine": "pericalcarine cortex",
    "postcentral": "postcentral gyrus",
    "posteriorcingulate": "posterior cingulate",
    "precentral": "precentral gyrus",
    "precuneus": "precuneus",
    "rostralanteriorcingulate": "rostral anterior cingulate",
    "rostralmiddlefrontal": "rostral middle frontal gyrus",
    "superiorfrontal": "superior frontal gyrus",
    "superiorparietal": "superior parietal lobule",
    "superiortemporal": "superior temporal gyrus",
    "supramarginal": "supramarginal gyrus",
    "temporalpole": "temporal pole",
    "transversetemporal": "transverse temporal gyrus",
}

DESTRIEUX = {
    "G_and_S_frontomargin": "frontomarginal gyrus and sulcus",
    "G_and_S_occipital_inf": "inferior occipital gyrus and sulcus",
    "G_and_S_paracentral": "paracentral lobule and sulcus",
    "G_and_S_subcentral": "subcentral gyrus and sulci",
    "G_and_S_transv_frontopol": "transverse frontopolar gyri and sulci",
    "G_and_S_cingul-Ant": "anterior cingulate gyrus and sulcus",
    "G_and_S_cingul-Mid-Ant": "middle anterior cingulate gyrus and sulcus",
    "G_and_S_cingul-Mid-Post": "middle posterior cingulate gyrus and sulcus",
    "G_cingul-Post-dorsal": "posterior dorsal cingulate gyrus",
    "G_cingul-Post-ventral": "posterior ventral cingulate gyrus",
    "G_cuneus": "cuneus",
    "G_front_inf-Opercular": "opercular part of the inferior frontal gyrus",
    "G_front_inf-Orbital": "orbital part of the inferior frontal gyrus",
    "G_front_inf-Triangul": "triangular part of the inferior frontal gyrus",
    "G_front_middle": "middle frontal gyrus",
    "G_front_sup": "superior frontal gyrus",
    "G_Ins_lg_and_S_cent_ins": "long insular gyrus and central sulcus of the insula",
    "G_insular_short": "short insular gyri",
    "G_occipital_middle": "middle occipital gyrus",
    "G_occipital_sup": "superior occipital gyrus",
    "G_oc-temp_lat-fusifor": "fusiform gyrus",
    "G_oc-temp_med-Lingual": "lingual gyrus",
    "G_oc-temp_med-Parahip": "parahippocampal gyrus",
    "G_orbital": "orbital gyri",
    "G_pariet_inf-Angular": "angular gyrus",
    "G_pariet_inf-Supramar": "supramarginal gyrus",
    "G_parietal_sup": "superior parietal lobule",
    "G_postcentral": "postcentral gyrus",
    "G_precentral": "precentral gyrus",
    "G_precuneus": "precuneus",
    "G_rectus": "gyrus rectus",
    "G_subcallosal": "subcallosal gyrus",
    "G_temp_sup-G_T_transv": "transverse temporal gyrus",
    "G_temp_sup-Lateral": "lateral part of the superior temporal gyrus",
    "G_temp_sup-Plan_polar": "polar plane of the superior temporal gyrus",
    "G_temp_sup-Plan_tempo": "temporal plane of the superior temporal gyrus",
    "G_temporal_inf": "inferior temporal gyrus",
    "G_temporal_middle": "middle temporal gyrus",
    "Lat_Fis-ant-Horizont": "horizontal branch of the anterior lateral fissure",
    "Lat_Fis-ant-Vertical": "vertical branch of the anterior lateral fissure",
    "Lat_Fis-post": "posterior branch of the lateral fissure",
    "Pole_occipital": "occipital pole",
    "Pole_temporal": "temporal pole",
    "S_calcarine": "calcarine sulcus",
    "S_central": "central sulcus",
    "S_cingul-Marginalis": "marginal branch of the cingulate sulcus",
    "S_circular_insula_ant": "anterior circular sulcus of the insula",
    "S_circular_insula_inf": "inferior circular sulcus of the insula",
    "S_circular_insula_sup": "superior circular sulcus of the insula",
    "S_collat_transv_ant": "anterior transverse collateral sulcus",
    "S_collat_transv_post": "posterior transverse collateral sulcus",
    "S_front_inf": "inferior frontal sulcus",
    "S_front_middle": "middle frontal sulcus",
    "S_front_sup": "superior frontal sulcus",
    "S_interm_prim-Jensen": "intermediate sulcus of Jensen",
    "S_intrapariet_and_P_trans": "intraparietal sulcus and transverse parietal sulci",
    "S_oc_middle_and_Lunatus": "middle occipital and lunate sulci",
    "S_oc_sup_and_transversal": "superior and transverse occipital sulci",
    "S_occipital_ant": "anterior occipital sulcus",
    "S_oc-temp_lat": "lateral occipito-temporal sulcus",
    "S_oc-temp_med_and_Lingual": "collateral and lingual sulci",
    "S_orbital_lateral": "lateral orbital sulcus",
    "S_orbital_med-olfact": "olfactory sulcus",
    "S_orbital-H_Shaped": "H-shaped orbital sulci",
    "S_parieto_occipital": "parieto-occipital sulcus",
    "S_pericallosal": "pericallosal sulcus",
    "S_postcentral": "postcentral sulcus",
    "S_precentral-inf-part": "inferior precentral sulcus",
    "S_precentral-sup-part": "superior precentral sulcus",
    "S_suborbital": "suborbital sulcus",
    "S_subparietal": "subparietal sulcus",
    "S_temporal_inf": "inferior temporal sulcus",
    "S_temporal_sup": "superior temporal sulcus",
    "S_temporal_transverse": "transverse temporal sulcus",
}

SUBCORTICAL = {
    "Thalamus": "thalamus",
    "Thalamus-Proper": "thalamus",
    "Caudate": "caudate nucleus",
    "Putamen": "putamen",
    "Pallidum": "pallidum",
    "Hippocampus": "hippocampus",
    "Amygdala": "amygdala",
    "Accumbens-area": "nucleus accumbens",
    "VentralDC": "ventral diencephalon",
    "Brain-Stem": "brainstem",
    "Lateral-Ventricle": "lateral ventricle",
    "Inf-Lat-Vent": "inferior lateral ventricle",
    "3rd-Ventricle": "third ventricle",
    "4th-Ventricle": "fourth ventricle",
    "5th-Ventricle": "fifth ventricle",
    "Cerebellum-Cortex": "cerebellar cortex",
    "Cerebellum-White-Matter": "cerebellar white matter",
    "choroid-plexus": "choroid plexus",
    "CC_Anterior": "anterior corpus callosum",
    "CC_Mid_Anterior": "middle anterior corpus callosum",
    "CC_Central": "central corpus callosum",
    "CC_Mid_Posterior": "middle posterior corpus callosum",
    "CC_Posterior": "posterior corpus callosum",
    "Optic-Chiasm": "optic chiasm",
}


def simple_name(name: str) -> str:
    """Letters and digits only: studies write the same name with dots, dashes or lines."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


READABLE = {
    "desikan-killiany": {simple_name(name): words for name, words in DESIKAN_KILLIANY.items()},
    "destrieux": {simple_name(name): words for name, words in DESTRIEUX.items()},
    "segmentation": {simple_name(name): words for name, words in SUBCORTICAL.items()},
}


@dataclass(frozen=True)
class RegionName:
    """What the name of a region says.

    Parameters
    ----------
    side : {"left", "right", ""}
        Hemisphere; empty where there is none.
    atlas : {"desikan-killiany", "destrieux", "segmentation", ""}
        That has this region; empty where none has.
    key : str
        Name within the atlas, letters and digits only; the whole name where no atlas has it.
    words : str
        For people, with the hemisphere.
    measure : str
        What was measured there, such as "thickness"; empty where the name does not say.

    Examples
    --------
    >>> from braindive.io.atlas_names import RegionName
    >>> RegionName("left", "desikan-killiany", "insula", "left insula").words
    'left insula'
    """

    side: str
    atlas: str
    key: str
    words: str
    measure: str = ""


# FreeSurfer's tables and ENIGMA's write a measure behind the region, or before it.
_MEASURES = (
    "thicknessstd|thickness|thickavg|thick|surfavg|surfarea|area|volume|vol|meancurv|gauscurv"
    "|foldind|curvind|suvr"
)
_MEASURE = re.compile(rf"(?:^({_MEASURES})[-_. ]+)|(?:[-_. ]+({_MEASURES})$)", re.IGNORECASE)
_SIDE = re.compile(
    r"(?:^(?:ctx|wm)?[-_. ]*(?P<before>lh|rh|left|right|l|r)[-_. ]+)"
    r"|(?:[-_. ]+(?P<after>lh|rh|left|right|l|r)$)",
    re.IGNORECASE,
)


def read_region_name(name: str) -> RegionName:
    """Find the hemisphere and the region that a name such as a column's means.

    Parameters
    ----------
    name : str
        As FreeSurfer, its tables and studies write it: ``lh_superiortemporal_thickness``,
        ``Left-Hippocampus``, ``ctx-rh-precuneus``, ``L_insula_thickavg``, ``precuneus_right``.

    Returns
    -------
    RegionName

    Examples
    --------
    >>> from braindive.io.atlas_names import read_region_name
    >>> read_region_name("lh_superiortemporal_thickness").words
    'left superior temporal gyrus'
    >>> read_region_name("rh_G_and_S_frontomargin_thickness").atlas
    'destrieux'
    >>> read_region_name("my own area").words
    'my own area'
    """
    # FreeSurfer writes the same Destrieux regions G&S_... and G_and_S_..., by its version.
    whole = str(name).strip().replace("&", "_and_")
    # The whole name first: the accumbens area is a region, and no area of one.
    for measure, bare in (("", whole), _take_measure(whole)):
        side, rest = _take_side(bare)
        inner = ("", rest) if not side or measure else _take_measure(rest)
        for kind, text in (("", rest), inner):
            found = _look_up(simple_name(text))
            if found is not None:
                atlas, key = found
                words = f"{side} {READABLE[atlas][key]}".strip()
                return RegionName(side, atlas, key, words, measure or kind)
    return RegionName(_take_side(whole)[0], "", simple_name(whole), str(name))


def _look_up(key: str) -> tuple[str, str] | None:
    """Atlas that has a region, and its name there."""
    # R writes G.S_frontomargin for G&S_frontomargin, and X3rd.Ventricle for 3rd-Ventricle.
    written = (key, f"gands{key.removeprefix('gs')}", key.removeprefix("x"))
    return next(
        ((atlas, each) for each in written for atlas, words in READABLE.items() if each in words),
        None,
    )


def _take_side(text: str) -> tuple[str, str]:
    """Hemisphere that a name begins or ends with, and the rest of the name."""
    found = _SIDE.search(text)
    if found is None:
        return "", text
    letter = (found["before"] or found["after"])[0].lower()
    return ("left" if letter == "l" else "right"), _SIDE.sub("", text, count=1)


def _take_measure(text: str) -> tuple[str, str]:
    """Measure that a name begins or ends with, in lower case, and the rest of the name."""
    found = _MEASURE.search(text)
    if found is None:
        return "", text
    return (found[1] or found[2]).lower(), _MEASURE.sub("", text, count=1)
