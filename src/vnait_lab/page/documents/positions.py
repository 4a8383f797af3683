"""003, an introduction to positional encodings in five parts, I to V, each numbered from 1."""

from vnait_lab.page.documents.rows import Row

ROWS = (
    Row(
        "I 1; IV summary; V 7",
        "Attention is blind to order: without positions 'dog bites man' is 'man bites dog'",
        sources=("003, why positions",),
    ),
    Row(
        "I 2; II 6; III 1-3, 7",
        "PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(...), with its table at d = 4",
        tests=("test_encodings::test_the_formula", "test_encodings::test_the_first_rows"),
    ),
    Row(
        "I 2, 3.1; II 2.2, 4, 5; III 4; IV 2.2; V 1, 4",
        "A shift by k is a linear map, a rotation",
        sources=("003, rotation",),
    ),
    Row(
        "I 2, 8; II 1, 3.2; III 6; IV 1",
        "Every position has a code of its own, linearly independent of the others",
        sources=("003, uniqueness",),
    ),
    Row("I 3.2; II 3.1; III 5", "Wavelengths run from 2 pi to 10000 * 2 pi", sources=("003, wavelengths",)),
    Row(
        "I 2; II 1; III 6; IV 3",
        "It reads sequences longer than those of training",
        sources=("003, why this design",),
    ),
    Row("I 4; V 5.1", "The printed PyTorch code", sources=("003, printed code",)),
    Row("I 5.1; II 8", "Learned tables adapt, relative encodings cost more", sources=("003, comparison",)),
    Row(
        "I 5.2; II 9; V 5, 7",
        "Relative encodings model the distance directly",
        sources=("003, relative encodings", "003, explicit designs"),
        tests=("test_bias::test_the_bias_depends_on_the_distance_alone",),
    ),
    Row(
        "I 5.3; II 9; IV 5.1; V 5.1",
        "RoPE is a rotation, and keeps the geometry of relative positions",
        sources=("003, RoPE",),
        tests=(
            "test_rotary::test_attention_weights_are_llamas",
            "test_rotary::test_scores_depend_on_differences",
        ),
    ),
    Row(
        "II 9; IV 5.2",
        "ALiBi subtracts m |i - j| from the scores",
        sources=("003, ALiBi",),
        tests=("test_bias::test_blooms_alibi",),
    ),
    Row(
        "II 9; V 5.2",
        "T5 adds a learned bias per distance",
        sources=("003, T5",),
        tests=("test_bias::test_t5s_buckets",),
    ),
    Row(
        "I 6",
        "The table, drawn, has wavelengths that grow with the channel, and diagonal stripes",
        sources=("003, stripes",),
        shown="`vnait draw sinusoidal`",
    ),
    Row(
        "I 7", "The code, added to the input, passes through the layers", sources=("003, in the Transformer",)
    ),
    Row("I 8", "PE_{a+b} = f(PE_a, PE_b), linear additivity", sources=("003, additivity",)),
    Row(
        "I 8",
        "Symmetry: equal distances are alike",
        tests=("test_encodings::test_the_dot_product_depends_on_the_distance_alone",),
    ),
    Row(
        "II 2.1",
        "Periodic functions show regularity, and have no huge numbers",
        sources=("003, periodic functions",),
    ),
    Row("II 3.2", "Sines and cosines are an orthogonal basis", sources=("003, basis",)),
    Row(
        "II 7; III 6",
        "Several frequencies: high for near, low for far",
        sources=("003, several frequencies",),
    ),
    Row("II 9", "Low frequencies matter more; high ones can be pruned", sources=("003, later findings",)),
    Row(
        "IV 1",
        "No single channel is monotone, but distances of codes tell positions apart",
        sources=("003, example", "003, distances"),
    ),
    Row(
        "IV 2.1",
        "A score is content plus position",
        sources=("003, attention, 2.1", "003, attention"),
    ),
    Row(
        "IV 2.2",
        "About 30 % of BERT's heads learn position offsets",
        sources=("003, attention, 2.2",),
        shown="the kinds of a model's heads on one text: `vnait explain`",
        lacks="the document names no source; counted in a BERT distilled to 6 layers, not in BERT-base",
    ),
    Row(
        "IV 3",
        "Counting, binary and sinusoidal codes compared",
        sources=("003, comparison of codes",),
    ),
    Row("IV 4", "PE_2 . PE_1 is high, so 'eats' finds 'She'", sources=("003, agreement",)),
    Row(
        "IV 4, summary; V 7",
        "Language modelling forces heads to learn agreement, also far away",
        sources=("003, agreement in training",),
        lacks="sentences of a grammar; no language model of real text was scored",
    ),
    Row(
        "IV 6",
        "Relative positions matter more than absolute ones",
        lacks="too general for one verdict: of the tasks in [the suites](../studies/README.md) some need "
        "one, some the other",
    ),
    Row(
        "IV 6",
        "bertviz shows heads with diagonals",
        tests=("test_explanation::test_bertviz_gets_the_models_own_attention",),
    ),
    Row("V 1", "What is learned of a distance is learned for every place", sources=("003, learning, 1",)),
    Row("V 2.1, 2.2", "The four terms of a score", sources=("003, learning, 2.1",)),
    Row("V 2.3", "Training makes W_Q W_K^T into M_3", sources=("003, learning, 2.3",)),
    Row("V 3", "Heads divide the distances among them", sources=("003, learning, 3",)),
    Row("V 4, 7", "W_Q and W_K find rotations by themselves", sources=("003, learning, 4",)),
    Row(
        "V 6",
        "Attention is random early, then diagonal, then specialized",
        sources=("003, learning, early", "003, learning, middle", "003, learning, late"),
    ),
)
