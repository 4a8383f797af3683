"""`vnait doctor`: planted faults are found, healthy models have none, and what it prints is true."""

import builtins
import copy
import dataclasses
import dis
import inspect
import json
import shutil
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    DeepseekV3Config,
    DeepseekV3Model,
    UMT5Config,
    UMT5EncoderModel,
    ViTConfig,
    ViTModel,
)

import vnait
from doctor_blind import BLIND
from doctor_faults import FAULTS
from doctor_key import FAST, KEY, model_of
from doctor_survey import enlarge
from helpers import python
from model_types import tiny
from vnait import TextClassifier, cli
from vnait.pretrained.doctor import RULES, Report, Severity
from vnait.pretrained.doctor.positions import alike
from vnait.pretrained.doctor.rules import MODULES
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.tokenizing import tokens_cut
from vnait.pretrained.doctor.trial import plain
from vnait.shared.errors import InputError

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "format_9"
HALVES = [name for name in KEY if name not in ("fnet", "xglm", "m2m_100")]  # which run in float32 alone
FAMILIES = [pytest.param(name, marks=[] if name in FAST else pytest.mark.long) for name in KEY]


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A tiny BERT with a tokenizer, to be changed."""
    return Path(shutil.copytree(GOLDEN / "tiny_bert", tmp_path / "bert"))


def change(path: Path, **settings: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_by_its_rule(name):
    rule, healthy, plant = FAULTS[name]
    model = healthy()
    assert not vnait.doctor(model, rules=[rule]).findings
    with torch.no_grad():
        plant(model)
    (finding,) = vnait.doctor(model, rules=[rule]).findings
    assert finding.severity == RULES[rule].severity


@pytest.mark.parametrize("name", BLIND)
def test_a_fault_that_was_planted_blind_is_a_bug(name):
    rule, healthy, plant = BLIND[name]
    model = healthy()
    assert not vnait.doctor(model, rules=[rule]).bugs
    with torch.no_grad():
        plant(model)
    report = vnait.doctor(model, rules=[rule])
    assert len(report.bugs) == 1 and not report.faults


def test_a_source_that_acts_weakly_is_a_position():
    """A new DeBERTa's order moves outputs by 1e-6, since its weights are small."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    relative = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]}
    model = DebertaV2Model(DebertaV2Config(vocab_size=100, max_relative_positions=32, **sizes, **relative))
    assert not vnait.doctor(model, rules=["SRC01"]).findings


def test_the_smallest_text_that_is_cut_is_named_where_a_word_is_several_tokens(tmp_path):
    texts, labels = ["ACGT", "GGTA", "TTAC", "CCGT"] * 4, ["a", "b"] * 8
    classifier = TextClassifier("rope", tokenization="characters", max_length=30, steps=1).fit(texts, labels)
    classifier.save(tmp_path / "letters")
    (finding,) = vnait.doctor(tmp_path / "letters", rules=["TOK01"]).findings
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "letters")
    words = int(finding.smallest.split()[0])
    assert [tokens_cut(None, tokenizer, count) > 0 for count in (words - 1, words)] == [False, True]
    assert words < 10


@pytest.mark.parametrize("family", FAMILIES)
def test_a_healthy_model_has_the_findings_of_its_code_and_no_bug(family):
    report = vnait.doctor(model_of(family))
    assert report.bugs == ()
    assert codes(report) == KEY[family][0]
    assert report.faults == {}
    assert len(report.findings) + len(report.kept_rules) + len(report.untried) == len(RULES)


@pytest.mark.parametrize(
    ("rule", "file", "settings"),
    [
        ("TOK02", "tokenizer_config.json", {"model_max_length": 40}),  # its table has 32 rows
        ("TOK03", "tokenizer_config.json", {"padding_side": "left"}),
        ("TOK03", "tokenizer_config.json", {"model_input_names": ["input_ids"]}),
        ("TOK04", "config.json", {"pad_token_id": 3}),
    ],
)
def test_a_fault_of_the_tokenizer_is_found_by_its_rule(rule, file, settings, folder):
    change(folder / "tokenizer_config.json", model_max_length=32)
    healthy = vnait.doctor(folder, rules=["TOK01", "TOK02", "TOK03", "TOK04"])
    assert codes(healthy) == {"TOK01"}
    change(folder / file, **settings)
    (finding,) = vnait.doctor(folder, rules=[rule]).findings
    assert finding.severity == RULES[rule].severity


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_head_with_one_number_per_token_is_no_fault_of_a_rule(family):
    report = vnait.doctor(model_of(family, head="AutoModelForQuestionAnswering"), rules=["POS04", "POS01"])
    assert report.faults == {}


def test_a_folder_without_a_tokenizer_is_examined_with_the_one_that_is_passed(folder, tmp_path):
    AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "bare")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert vnait.doctor(tmp_path / "bare", rules=["TOK03"]).untried
    assert not vnait.doctor(tmp_path / "bare", tokenizer=tokenizer, rules=["TOK03"]).untried


def test_the_report_on_decoders_names_what_was_not_tried():
    t5, gpt2 = (vnait.doctor(model_of(name), rules=["CACHE03", "PACK01", "TOK01"]) for name in ("t5", "gpt2"))
    assert set(t5.untried) == {"CACHE03", "PACK01", "TOK01"}
    assert gpt2.untried == {"TOK01": "there is no tokenizer"}
    assert all(reason in t5.text() for reason in t5.untried.values())


def test_an_attached_model_has_no_bug_and_keeps_left_padding():
    model = model_of("bert")
    vnait.attach(model, "vnait")
    report = vnait.doctor(model)
    assert report.bugs == () and {"PAD01", "PAD03", "PAD04"} <= set(report.kept_rules)


@pytest.mark.parametrize("method", ["vnait-causal", "rope", "alibi"])
def test_a_rotation_that_attach_keeps_replaces_or_switches_off_is_no_bug(method):
    model = model_of("llama")
    vnait.attach(model, method, warm_start=None)
    assert vnait.doctor(model).bugs == ()


def test_several_end_tokens_are_no_ordinary_ids():
    model = model_of("llama")
    model.config.eos_token_id = [7, 9]
    assert vnait.doctor(model, rules=["PAD01"]).bugs == ()


def test_a_folder_of_an_attached_model_is_loaded_with_its_method(tmp_path, folder):
    model = BertModel.from_pretrained(folder)
    vnait.attach(model, "vnait")
    model.save_pretrained(tmp_path / "attached")
    report = vnait.doctor(tmp_path / "attached", rules=["PAD01", "LEN01", "TOK01"])
    assert report.kept_rules == ("PAD01", "LEN01")
    assert report.untried == {"TOK01": "there is no tokenizer"}


@pytest.mark.parametrize("name", ["vnait", "fine_tuned"])
def test_what_vnait_train_saves_has_no_bug(name):
    assert vnait.doctor(GOLDEN / name).bugs == ()


def test_a_model_is_left_as_it_was():
    model = model_of("llama").train()
    model(torch.tensor([[5, 6]]), output_hidden_states=True)  # for which transformers adds hooks, once
    before = copy.deepcopy(model)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    vnait.doctor(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(part.training for part in model.modules())
    assert model.config.to_dict() == before.config.to_dict()
    hooks = [[len(part._forward_hooks) for part in network.modules()] for network in (model, before)]
    assert hooks[0] == hooks[1]
    pairs = [*model.named_parameters(), *model.named_buffers()]
    values = dict([*before.named_parameters(), *before.named_buffers()])
    assert all(torch.equal(value, values[name]) for name, value in pairs)


def test_a_head_that_needs_more_than_ids_is_left_out():
    """BART's classifier looks for the end of a text; the model below it is examined."""
    report = vnait.doctor(model_of("bart", head="AutoModelForSequenceClassification"))
    assert report.bugs == () and {"PAD03", "PAD04", "LEN03"} <= set(report.kept_rules)


def test_a_cast_model_has_a_bug_that_one_loaded_in_half_precision_has_not(tmp_path):
    model = model_of("llama")
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert vnait.doctor(loaded).bugs == ()
    assert codes(vnait.doctor(model.bfloat16(), rules=["ROPE02"])) == {"ROPE02"}


def test_places_that_float32_merges_are_no_fault_of_half_precision():
    model = model_of("llama")
    FAULTS["a_rotation_joins_neighbours"][2](model)
    report = vnait.doctor(model)
    assert [finding.code for finding in report.bugs] == ["POS04", "ROPE04"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cohere2", None),  # layers of full attention don't rotate
        ("nanochat", None),  # rotates to the other side
        ("llama4_text", None),  # rotates complex numbers
        ("qwen3_next", "no layer of PyTorch's attention gets equal states for equal tokens"),  # a recurrence
        ("gpt_oss", None),  # has no attention by PyTorch's function of its own
    ],
)
def test_ways_of_rotating_that_are_right(name, reason):
    report = vnait.doctor(enlarge(tiny(name, varied=True) or tiny(name)), rules=["ROPE03"])
    assert report.findings == () and report.untried.get("ROPE03") == reason


def test_an_encoder_that_declares_a_decoder_is_read():
    config = UMT5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    assert vnait.doctor(UMT5EncoderModel(config).eval(), rules=["BIAS01"]).kept_rules == ("BIAS01",)


def test_weights_that_are_not_here_are_refused():
    with pytest.raises(InputError, match="device meta"):
        vnait.doctor(model_of("llama").to("meta"))


def test_a_rotation_of_the_last_channels_is_right():
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    heads = {"num_key_value_heads": 2, "kv_lora_rank": 16, "q_lora_rank": 16, "v_head_dim": 16}
    heads |= {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "first_k_dense_replace": 2}
    model = DeepseekV3Model(DeepseekV3Config(**sizes, **heads, intermediate_size=48))
    assert vnait.doctor(model.eval(), rules=["ROPE03"]).kept_rules == ("ROPE03",)


def test_layers_that_the_configuration_leaves_without_a_rotation_are_no_fault():
    model = model_of("llama")
    FAULTS["a_layer_does_not_rotate"][2](model)
    (finding,) = vnait.doctor(model, rules=["ROPE03"]).findings
    assert "1 layer of 2 (first 1," in finding.measured
    model.config.no_rope_layers = [1, 0]
    assert vnait.doctor(model, rules=["ROPE03"]).kept_rules == ("ROPE03",)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft reads the old name
def test_a_wrapped_model_is_found_inside():
    adapted = get_peft_model(model_of("bert"), LoraConfig(target_modules=["query"]))
    report = vnait.doctor(adapted, rules=["LEN01"])
    assert (report.model, codes(report)) == ("BertForMaskedLM", {"LEN01"})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "doctor was given a int; give a model of transformers"),
        (torch.nn.Linear(2, 2), "Linear has no model of transformers in it"),
        ("/no/such/folder", "/no/such/folder is not a folder"),
        (GOLDEN, "it has no config.json"),
        (GOLDEN / "adapter", "has an adapter of vnait, which is not a complete model"),
        (
            ViTModel(
                ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
            ),
            "ViTModel reads pixel_values, not input_ids",
        ),
    ],
)
def test_what_is_no_text_model_is_refused_in_a_sentence(model, message):
    with pytest.raises(vnait.InputError, match=message):
        vnait.doctor(model)


def test_folders_that_are_no_models_are_refused_in_a_sentence(tmp_path, folder):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(vnait.InputError, match="has a PEFT adapter"):
        vnait.doctor(tmp_path)
    (tmp_path / "baseline.json").write_text("{}")
    (tmp_path / "adapter_config.json").unlink()
    with pytest.raises(vnait.InputError, match="has a baseline that reads bags of words"):
        vnait.doctor(tmp_path)
    change(folder / "config.json", hidden_size=17)
    with pytest.raises(vnait.InputError, match="can't be loaded as a model of transformers"):
        vnait.doctor(folder)


def test_models_whose_outputs_can_not_be_compared_are_refused():
    model = model_of("bert")
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.fill_(torch.inf)
    with pytest.raises(vnait.InputError, match="outputs that are not finite"):
        vnait.doctor(model)
    noisy = model_of("bert")
    noisy.bert.encoder.register_forward_hook(
        lambda part, inputs, output: type(output)(last_hidden_state=output[0] + torch.randn(1))
    )
    with pytest.raises(vnait.InputError, match="different outputs in every run"):
        vnait.doctor(noisy)


def test_rules_are_chosen_by_code():
    model = model_of("bert")
    assert codes(vnait.doctor(model, rules=["len01", "PAD01"], ignore=["pad01"])) == {"LEN01"}
    with pytest.raises(vnait.InputError, match="no rule is left to try; ignore fewer"):
        vnait.doctor(model, rules="LEN01", ignore="len01")
    with pytest.raises(vnait.InputError, match=r"there is no rule LEN1; .* Did you mean 'LEN01'\?"):
        vnait.doctor(model, rules=["LEN1"])


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_is_described_by_its_docstring(rule):
    """What is wrong in a sentence, how it shows, and what to do."""
    assert rule.meaning.endswith(".")
    assert rule.details.endswith((".", '."'))
    assert rule.advice and "Advice" not in rule.details + rule.advice


def script(finding: object) -> float | bool:
    """The number that a reproduction prints, in a process that has not imported vnait."""
    return json.loads(python(finding.reproduction).strip().lower())


@pytest.mark.long
def test_reproductions_of_a_folder_print_what_was_measured(folder):
    change(folder / "tokenizer_config.json", model_max_length=32, padding_side="left")
    report = vnait.doctor(folder, rules=["PAD01", "LEN01", "TOK03"])
    assert [finding.code for finding in report.findings] == ["TOK03", "PAD01", "LEN01"]
    with ThreadPoolExecutor(3) as pool:
        printed = list(pool.map(script, report.findings))
    assert printed == pytest.approx([finding.shown for finding in report.findings], abs=1e-6)


@pytest.mark.long
def test_every_reproduction_of_a_decoder_prints_what_was_measured(tmp_path):
    model_of("llama").save_pretrained(tmp_path)
    report = vnait.doctor(tmp_path)
    assert codes(report) == KEY["llama"][0]
    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(script, report.findings))
    assert printed == pytest.approx([finding.shown for finding in report.findings], rel=1e-3, abs=1e-6)


def test_an_error_inside_a_rule_is_a_fault_of_the_doctor(monkeypatch):
    def broken(subject):
        raise KeyError("a slip")

    rule = dataclasses.replace(RULES["PAD01"], examine=broken)
    monkeypatch.setitem(RULES, "PAD01", rule)
    report = vnait.doctor(model_of("bert"), rules=["PAD01", "LEN01"])
    assert codes(report) == {"LEN01"} and report.untried == {}
    assert report.faults["PAD01"].startswith("KeyError: 'a slip'")
    assert "1 failed" in report.summary() and "please report it" in report.text()
    assert report.document()["faults"] == report.faults
    assert report.sarif()["runs"][0]["invocations"][0]["executionSuccessful"] is False


def test_an_error_of_the_model_is_none_of_the_doctor():
    model = model_of("bert")

    def refuse(part, inputs):
        assert inputs[0].shape[1] != 3, "three tokens are too many"

    model.bert.embeddings.word_embeddings.register_forward_pre_hook(refuse)
    report = vnait.doctor(model, rules=["PAD03"])
    assert report.untried == {"PAD03": "AssertionError: three tokens are too many"} and not report.faults


@pytest.mark.parametrize("counted", [False, True])
def test_a_score_near_zero_is_no_bug(counted):
    """A regressor whose bias takes a score to 0, where rounding is most of it; a mean over padding is one."""
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(**size, vocab_size=100, num_labels=1)).eval()

    def count_padding(part, inputs, output):
        output.pooler_output = output.last_hidden_state.mean(1)
        return output

    if counted:
        model.bert.register_forward_hook(count_padding)
    with torch.no_grad():
        model.classifier.bias.sub_(model(Subject(model=model).text(2)).logits[0])
    bugs = vnait.doctor(model, rules=["PAD03"]).bugs
    assert [finding.code for finding in bugs] == (["PAD03"] if counted else [])


@pytest.mark.parametrize("name", FAST)
def test_scripts_run_the_part_that_was_measured(name):
    """Of a model for classes most rules measure the body, which is `model.base_model`."""
    head = "AutoModelForSequenceClassification" if name in ("bert", "llama") else None
    model = model_of(name, head=head)
    subject = Subject(model=model)
    for part, called in ((None, "model" if subject.body is model else "model.base_model"), (model, "model")):
        trial = subject.trial(tokens_cut, "", part=part, words=1)
        assert trial.script().splitlines()[-1].startswith(f"print(tokens_cut({called}, ")


def test_attention_to_single_tokens_is_no_fault():
    """Where it is all or nothing, a place can hide another, in one text, and a token can hide its window."""
    model = model_of("qwen3")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_norm.weight.mul_(30)
    ids = Subject(model=model).text(2)
    assert alike(model.model, ids, torch.arange(64), 0) > 0
    assert not vnait.doctor(model, rules=["POS04"]).findings


@pytest.mark.parametrize("code", ["LEN01", "LEN02"])
def test_a_dynamic_rotation_is_left_as_it_was(code):
    model = model_of("llama, dynamic")
    before = {name: value.clone() for name, value in model.named_buffers()}
    vnait.doctor(model, rules=[code])
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())


def test_advice_on_left_padding_names_no_argument_that_a_model_does_not_take():
    (finding,) = vnait.doctor(model_of("bart"), rules=["PAD01"]).findings
    assert finding.advice == "pad on the right: it takes no position_ids"


@pytest.mark.parametrize("settings", [{}, {"is_causal": False}])
def test_classifiers_of_decoders_get_the_sentence_of_transformers(settings):
    model = model_of("llama", head="AutoModelForSequenceClassification", **settings)
    (finding,) = vnait.doctor(model, rules=["PAD05"]).findings
    assert finding.severity == Severity.TRAP
    assert "the last token that is not a padding token" in finding.measured
    assert "model.base_model" not in finding.reproduction
    assert "model.base_model" in vnait.doctor(model, rules=["ROPE01"]).findings[0].reproduction


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) for name in HALVES])
def test_half_precision_leaves_healthy_models_healthy(name, dtype):
    model = model_of(name)
    buffers = {path: value.clone() for path, value in model.named_buffers()}
    model.to(dtype)
    for path, value in buffers.items():  # as `from_pretrained(..., dtype=)` leaves them
        module, _, key = path.rpartition(".")
        setattr(model.get_submodule(module), key, value)
    report = vnait.doctor(model)
    assert report.bugs == () and report.faults == {}


def test_places_are_not_compared_in_half_precision():
    report = vnait.doctor(model_of("gpt_neox").bfloat16(), rules=["POS04"])
    assert "load it in float32" in report.untried["POS04"]


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of its own quantization
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_quantized_model_has_no_bug_and_rules_that_compare_are_named(name):
    model = torch.ao.quantization.quantize_dynamic(model_of(name), {torch.nn.Linear})
    report = vnait.doctor(model)
    assert report.bugs == () and report.faults == {}
    limits = [finding.code for finding in report.findings if finding.severity == Severity.LIMIT]
    assert "PAD04" in limits
    assert "numbers follow its batch" in report.untried["PAD03"]


@pytest.mark.filterwarnings("ignore")
def test_a_soft_prompt_is_examined_as_it_is_attached():
    prompt = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    report = vnait.doctor(
        get_peft_model(model_of("llama"), prompt), rules=["PAD01", "PAD02", "PAD03", "CACHE02", "CACHE03"]
    )
    assert report.model == "PeftModelForCausalLM" and report.faults == {}
    assert codes(report) == {"PAD01", "PAD02", "CACHE02", "CACHE03"}
    assert "Prompted(...)" in report.findings[0].reproduction
    prompt = PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
    classifier = get_peft_model(model_of("bert", head="AutoModelForSequenceClassification"), prompt)
    with pytest.raises(vnait.InputError, match="no output per token"):
        vnait.doctor(classifier)


def test_vectors_in_place_of_ids_lose_position_in_esm():
    sizes = {"type": "esm", "position_embedding_type": "absolute", "token_dropout": False}
    assert codes(vnait.doctor(model_of("roberta", **sizes), rules=["POS05"])) == {"POS05"}


def globals_of(code: types.CodeType) -> set[str]:
    """Names that a function and those inside it look up outside."""
    names = {
        line.argval for line in dis.get_instructions(code) if line.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inside = [globals_of(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return names.union(*inside)


def test_every_measurement_can_be_pasted():
    """The functions that are shown as scripts need nothing but torch and `difference`."""
    shown = {
        function
        for module in MODULES
        for function in vars(module).values()
        if isinstance(function, types.FunctionType) and "model" in inspect.signature(function).parameters
    }
    assert len(shown) >= 25
    for function in shown:
        code = compile(plain(function), function.__name__, "exec")
        names = globals_of(code) - {"torch", "difference"} - set(dir(builtins))
        assert not names, function.__name__


def test_reproductions_are_short_and_name_no_path_of_vnait(folder, tmp_path):
    model_of("llama").save_pretrained(tmp_path / "llama")
    reports = [vnait.doctor(folder), vnait.doctor(tmp_path / "llama")]
    for finding in (finding for report in reports for finding in report.findings):
        lines = finding.reproduction.splitlines()
        assert len(lines) <= 15, finding.code
        assert "vnait" not in finding.reproduction.replace(str(tmp_path), "")


def run(capsys, *arguments: str) -> tuple[int, str]:
    code = 0
    try:
        cli.main(["doctor", *arguments, "--quiet"])
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr().out


def test_the_command_gives_text_json_and_sarif(capsys, folder, tmp_path):
    change(folder / "tokenizer_config.json", padding_side="left", model_max_length=32)
    file, chosen = tmp_path / "found.sarif", ["--rules", "TOK03,PAD01,LEN01,CACHE01"]
    code, text = run(capsys, str(folder), *chosen, "--sarif", str(file))
    assert code == 1
    assert text.startswith(f"{folder} (BertModel): 1 bug, 1 trap, 1 limit; 0 rules kept, 1 not tried")
    for part in ("bug   TOK03", "reference/doctor.html#pad01", "import torch", "CACHE01: it has no cache"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 200
    code, printed = run(capsys, str(folder), *chosen, "--json")
    document = json.loads(printed)
    assert code == 1 and [row["severity"] for row in document["findings"]] == list(Severity)
    assert set(document["untried"]) == {"CACHE01"} and document["model"] == "BertModel"
    check_sarif(json.loads(file.read_text()), folder)
    assert run(capsys, str(folder), "--rules", "PAD01", "--ignore", "TOK03")[0] == 0


@pytest.mark.parametrize(
    ("rules", "severity", "code"),
    [
        ("LEN01", "bug", 0),
        ("LEN01", "trap", 0),
        ("LEN01", "limit", 1),
        ("PAD01", "trap", 1),
        ("PAD01", "bug", 0),
    ],
)
def test_the_command_fails_on_findings_as_bad_as_asked_for(capsys, folder, rules, severity, code):
    """LEN01 is a limit of a BERT, and PAD01 a trap."""
    assert run(capsys, str(folder), "--rules", rules, "--fail-on", severity)[0] == code


def check_sarif(log: dict, folder: Path) -> None:
    """What SARIF 2.1.0 requires, and what code scanners read."""
    assert log["version"] == "2.1.0" and len(log["runs"]) == 1
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["PAD01", "CACHE01", "LEN01", "TOK03"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert location == {"uri": f"{folder}/config.json"}
        assert result["message"]["text"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["associatedRule"] == {"id": "CACHE01"} and "no cache" in note["message"]["text"]


def test_what_is_not_a_number_is_a_finding_and_null_in_json():
    model = model_of("bert")
    model.bert.embeddings.register_forward_hook(lambda part, inputs, states: states / (states.shape[1] < 7))
    report = vnait.doctor(model, rules=["PAD03"])
    assert codes(report) == {"PAD03"}
    assert "Infinity" not in json.dumps(report.document())
    assert report.document()["findings"][0]["size"] is None


def test_the_page_counts_what_is_planted_and_what_is_healthy():
    page = (Path(__file__).parents[1] / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert f"{len(FAULTS) + len(BLIND)} faults in tiny models, {len(BLIND)} of them" in page
    assert f"On {len(KEY)} healthy models" in page
