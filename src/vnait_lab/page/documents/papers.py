"""The two versions of the paper: 000, and 001, which is shorter and has no section numbers."""

from vnait_lab.page.documents.rows import Row

ROWS = (
    Row(
        "000 1.1",
        "Self-attention by itself does not know the order of words",
        sources=("000, section 1.1",),
    ),
    Row(
        "000 1.1, 2.1",
        "Positions are rows of a learned table of L_max x d, or fixed sinusoids",
        tests=("test_tables::test_berts_table", "test_encodings::test_the_formula"),
        shown="`vnait draw learned sinusoidal`",
    ),
    Row(
        "000 1.1",
        "Self-attention changed machine translation and text classification",
        sources=("000, section 1.1, translation",),
        lacks="a generated language; a few hundred real pairs do not suffice to learn one",
    ),
    Row(
        "000 2.1",
        "Wang et al. (2020) optimize the frequencies of the sinusoid, which stays fixed",
        tests=("test_codes::test_learned_frequencies_start_as_the_sinusoid_and_have_its_derivatives",),
        shown="the method `learned-frequencies`: `vnait draw learned-frequencies`",
        lacks="only frequencies that all words share; those of each word, arXiv 1912.12333, can't be an "
        "encoding of coordinates",
    ),
    Row(
        "000 2.2",
        "Methods that read parse trees or dependency graphs depend on linguistic tools",
        sources=("000, section 2.2, trees",),
        tests=("test_spectrum::test_the_tokens_are_the_nodes_in_the_graphs_own_order",),
        lacks="heads are wrong at random, not by a parser",
    ),
    Row(
        "000 2.2",
        "Qiu et al. (2021) learn structural embeddings by self-supervision, on top of usual positions",
        sources=("000, section 2.2, self-supervision",),
        lacks="two questions of our own, on the texts of TREC; not their model",
    ),
    Row(
        "000 3.2 (1), 3.3; 001 constraints",
        "S_1 < S_2 < ... < S_n",
        tests=(
            "test_coordinates::test_order_ends_and_gradients",
            "test_coordinates::test_every_source_and_dtype",
        ),
    ),
    Row(
        "000 3.2 (2), 3.3 step 2; 001 constraints, method 1",
        "The S_i add up to 100, by S_i = 100 R_i / R_n",
        tests=(
            "test_coordinates::test_the_span_of_ten_uniform_tokens_adds_up_to_550",
            "test_coordinates::test_sum_adds_up_to_100",
        ),
        shown="the two exclude each other ([what the documents contradict](faithfulness.md))",
    ),
    Row(
        "000 3.2 (3); 001 constraints",
        "S_i may be fractions and negative",
        tests=("test_coordinates::test_soft_bounds_start_hard_and_then_leave_the_range",),
        shown="half of the arms of `python -m vnait_lab.runs.choices` have soft bounds",
    ),
    Row(
        "000 3.2; 001 interpretability, theory",
        "S = 50 is the middle, whatever n",
        sources=("000, section 3.2, the middle",),
    ),
    Row(
        "000 1.2, 3.2",
        "Continuous coordinates can learn fine adjustments, such as larger intervals at key tokens",
        sources=("000, section 3.2, key tokens",),
        shown="sources of gaps and their penalty: `python -m vnait_lab.runs.gaps`",
    ),
    Row(
        "000 3.3 step 1; 001 method 1",
        "R_i = softplus(z_1) + ... + softplus(z_i) increases strictly",
        tests=("test_coordinates::test_the_papers_formula", "test_coordinates::test_any_floor"),
    ),
    Row(
        "000 3.3, 4.1; 001 method 1",
        "z in R^n is free of constraints, differentiable and negligible",
        tests=(
            "test_coordinates::test_free_is_one_z_a_position",
            "test_coordinates::test_free_past_max_length_names_warp",
        ),
        shown="a number per position is a table; three sources without a maximum length stand beside it",
    ),
    Row(
        "000 3.4; 001 method 2",
        "s_i = MLP(S_i), with L >= 2 layers",
        tests=("test_encodings::test_spatial_is_an_mlp_of_the_standardized_coordinate",),
    ),
    Row(
        "000 3.4",
        "GELU is preferred, or ReLU; hidden widths are 2d or 4d",
        sources=("000, sections 3.4 to 3.9, choices",),
        tests=("test_encodings::test_relu_is_relu",),
    ),
    Row(
        "000 3.5; 001 method 3",
        "e_i = Word2Vec(w_i), frozen or fine-tuned",
        tests=(
            "test_vectors::test_training_is_skip_gram_with_every_setting",
            "test_model::test_what_was_frozen_is_frozen_after_loading",
        ),
        shown="`vnait vectors train`, `vnait train --tune-vectors`; tuned against frozen vectors: "
        "`python -m vnait_lab.runs.choices`",
    ),
    Row(
        "000 3.6 (1)-(3); 001 method 4",
        "Delta = e - s, rho = cos(e, s), a = MLP([e; s; Delta; rho 1])",
        tests=("test_inputs::test_folded_is_literal", "test_inputs::test_cosine"),
    ),
    Row(
        "000 3.6",
        "The relation captures an interaction that adding positions ignores",
        sources=("000, section 3.6, relation",),
        shown="on few labels: `VNAIT_DATA=DIR python -m vnait_lab.runs.ablation --sets trec,splice`",
    ),
    Row(
        "000 3.7; 001 method 5",
        "x = e + s + a replaces the sum of word and position completely",
        tests=(
            "test_inputs::test_fusion_starts_as_a_sum_and_learns",
            "test_contract::test_a_step_from_the_start_moves_every_part",
        ),
        shown="`vnait-paper` is the papers' input, literally; it is a row of the tables of "
        "[the suites](../studies/README.md)",
    ),
    Row(
        "000 3.8, 4.3; 001 integration, compatibility",
        "Only the input layer changes: BERT, GPT and T5 take it as they are",
        tests=(
            "test_pretrained::test_warm_start_keeps_the_outputs_and_detach_gives_the_model_back",
            "test_pretrained::test_the_input_is_the_formula",
        ),
        shown="[sixteen families](families.md): `python benchmarks/families.py`",
    ),
    Row(
        "000 4.3",
        "Optimizers, schedules and metrics stay the same",
        tests=("test_model::test_trainer",),
    ),
    Row(
        "000 3.9; 001 objective",
        "Loss: cross-entropy or squared error, plus gamma_1 Huber(S_i+1 - S_i - 100 / n), plus gamma_2 times "
        "the boundary penalty",
        tests=(
            "test_inputs::test_smoothness",
            "test_inputs::test_boundary",
            "test_model::test_cross_entropy_and_the_regularizer",
            "test_model::test_regression",
        ),
    ),
    Row(
        "000 3.9",
        "Smoothness keeps intervals near uniform; gammas of 0.1 to 1 come from validation",
        tests=("test_cli::test_held_out_rows_choose_the_penalty",),
        shown="accuracy by gamma_1, for each source of gaps: `python -m vnait_lab.runs.gaps`; "
        "`vnait train --smoothness 0,0.1,1` chooses by held-out rows",
    ),
    Row(
        "000 3.9",
        "The boundary penalty keeps S_1 >= 0 and S_n <= 100",
        sources=("000, section 3.9, boundary",),
        tests=(
            "test_inputs::test_boundary_is_alive_beyond_the_range",
            "test_contract::test_the_boundary_penalty_counts_where_bounds_are_soft",
        ),
    ),
    Row(
        "000 4.1; 001 parameter efficiency, theory",
        "Fewer parameters than a table of positions, at no loss",
        sources=("000, section 4.1",),
        shown="every size at one width: `vnait params --dim 768`",
    ),
    Row(
        "000 1.2, 4.2; 001 length generalization, theory",
        "A share of the text has one S at every length, which no index and no sinusoid has",
        sources=("000, section 4.2", "001, length generalization"),
    ),
    Row(
        "000 4.2; 001 length generalization, where it applies",
        "So it generalizes better to lengths that training did not have",
        sources=("000, section 4.2, unseen lengths", "000, section 4.2, twice the length"),
        shown="articles in 1,900 tokens: `python -m vnait_lab.runs.long_documents MODEL_FOLDER "
        "--methods own,vnait-warp`",
    ),
    Row(
        "000 1.2, 5.1; 001 data efficiency, where it applies",
        "The structural prior improves sample efficiency with few labels",
        sources=("000, section 1.2, few labels", "000, section 5.1, parts of speech"),
    ),
    Row(
        "001 data efficiency",
        "Training converges faster",
        sources=("001, data efficiency, convergence",),
    ),
    Row(
        "001 closing note",
        "The representation is more robust",
        sources=("001, robustness",),
        lacks="on the three sets of text the bag of words beside each method decides most",
    ),
    Row(
        "000 5.2 (1); 001 future work 1",
        "Decoders need causal constraints on the coordinates",
        sources=("000, section 5.2, decoders",),
        tests=(
            "test_coordinates::test_a_causal_prefix_never_moves",
            "test_causal::test_generate_writes_the_same_with_a_cache_and_in_a_padded_batch",
        ),
        shown="perplexity past the training length: `VNAIT_DATA=DIR python -m vnait_lab.runs.decoder`",
    ),
    Row(
        "000 5.2 (2); 001 future work 2",
        "Put into pretrained models, it is to be fine-tuned on tasks with few labels",
        sources=("000, section 5.2, fine-tuning",),
        lacks="one encoder of 6 layers, no large language model",
    ),
    Row(
        "000 2.2, 3.1, 5.2 (3); 001 interpretability, future work 3",
        "S_i relates to phrases and clauses; structure emerges from data without linguistic labels",
        sources=("000, section 5.2", "001, interpretability"),
        shown="one text: `vnait explain`",
    ),
)
