"""004, a chapter on applications, in Chinese; its headings are not numbered."""

from vnait_lab.page.documents.rows import Row

ROWS = (
    Row(
        "Language: long texts",
        "Past the training length codes drift and alias, and perplexity follows; RoPE is more robust",
        sources=("004, extrapolation",),
    ),
    Row(
        "Language: cross-attention",
        "Absolute positions on the source, on the target, or an offset have different symmetries",
        sources=("004, cross-attention", "004, translation"),
        tests=("test_pretrained::test_crossing_symmetries",),
        lacks="what is trained translates a generated language; a few hundred real pairs do not suffice",
    ),
    Row(
        "Language: several languages",
        "A bias towards the diagonal aligns words where the order is near monotone, and misleads elsewhere",
        sources=("004, multilingual models and word alignment",),
    ),
    Row(
        "Language: documents",
        "Segment and offset as a hierarchical code",
        sources=("004, document hierarchy",),
        tests=("test_grids::test_segments_of_real_data",),
    ),
    Row(
        "Vision: two axes",
        "Separable, additive and rotated codes have different biases",
        sources=("004, two axes",),
        tests=("test_rotary::test_axial_scores_are_a_sum_over_axes",),
    ),
    Row("Vision: two axes", "Positions are a key part of a vision Transformer", sources=("004, vision",)),
    Row(
        "Vision: practice",
        "Patches, padding with a mask, and position grids for images of any size",
        sources=("004, vision in practice",),
        tests=(
            "test_images::test_other_sizes_are_read_as_the_model_does_before_training",
            "test_images::test_a_grid_need_not_be_square",
        ),
        lacks="digits of 8 x 8 pixels, alone and on photographs; no medical image, no pretrained ViT read at "
        "other sizes",
    ),
    Row(
        "Biology: far interactions",
        "From the donor of an intron attention finds its branch point, as mutations confirm",
        sources=("004, splicing",),
        lacks="generated introns, also between real junctions of 60 letters, which contain no branch point",
    ),
    Row(
        "Biology: motif pairs",
        "Two motifs at a fixed offset, on both strands",
        sources=("004, motif pairs",),
        lacks="generated DNA",
    ),
    Row(
        "Biology: proteins",
        "A relative bias, learned or from a contact map, finds contacts far apart on the chain",
        sources=("004, protein structure",),
        tests=("test_bias::test_contacts_start_at_the_map",),
        lacks="127 real proteins, 51 of them from one ribosome, and the letters of each chain alone: no "
        "aligned homologs, no pretrained model; how AlphaFold starts was not checked",
    ),
    Row(
        "Time: seasons",
        "Codes with the signal's period generalize, tables of absolute time do not",
        sources=("004, time series",),
        tests=("test_grids::test_seconds_since_1970_keep_their_phase",),
    ),
    Row(
        "Time: forecasts by phase",
        "Attention to past moments at the target's phase",
        sources=("004, phase-aligned forecasting",),
    ),
    Row(
        "Control: paths",
        "Relative weights extrapolate, and do not depend on the start",
        sources=("004, trajectories",),
    ),
    Row(
        "Control: time invariance",
        "A policy with relative positions does not depend on the hour",
        sources=("004, time invariance",),
        lacks="one simulator, CartPole, and one layer; none of the environments of Chen et al. (2021)",
    ),
    Row(
        "Theory: error correction",
        "Attention on binary codes of places finds a flipped bit of the Hamming code",
        sources=("004, error correction",),
    ),
    Row(
        "Theory: spectral graphs",
        "Laplacian eigenvectors are positions on any graph, and the best basis for heat on it",
        sources=("004, spectral graph theory",),
        tests=("test_spectrum::test_eigenvectors_of_networkxs_laplacian",),
        lacks="fitted signals; the graphs classified have at most 7 nodes",
    ),
)
