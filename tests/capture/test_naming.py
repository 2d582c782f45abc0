"""Names of captures of the user's own code: readable, always legal, and without secrets."""

import re
import shlex
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.capture.naming import LONGEST, program_stem
from tracetui.session.paths import may_be_trace, trace_stem


@pytest.mark.parametrize(("line", "stem"), [
    ("", "train"), ("--sleep 0.01", "train-sleep=0.01"), ("--sleep=0.01", "train-sleep=0.01"),
    ("--amp --epochs 3 -e 5 -v", "train-amp,epochs=3,e=5,v"),
    ("small --lr -0.5 --shift -.5 2 3", "train-small,lr=-0.5,shift=-.5,2,3"),
    ("--data /x/y/imagenet --out here/ --base 'C:\\a\\b'", "train-data=imagenet,out=here,base=b"),
    ("../a/config.yaml lr=0.1 data=/x/imagenet", "train-config.yaml,lr=0.1,data=imagenet"),
    ("--model https://me:pw@host/gpt2?key=abc --db postgres://me:word@host", "train-model=gpt2,db=host"),
    ("-- --amp - -1", "train---amp,-,-1"), ("--name 'a b' --name= ''", "train-name=a_b,name=,"),
    ("--größe 3 名", "train-größe=3,名"), ("'a\x1b[2J\n\u202e'", "train-a__2J__")
])  # fmt: skip
def test_what_a_script_was_run_with_is_its_name(line, stem):
    assert program_stem("some/dir/train.py", shlex.split(line)) == stem


@pytest.mark.parametrize(("target", "stem"), [
    ("pkg.mod:Class.run", "Class.run"), ("pkg.mod:run", "run"), (".py", "_py"), (".hidden.py", "_hidden"),
    ("-x.py", "_x"), ("a/my.meta.py", "my_meta")
])  # fmt: skip
def test_other_programs(target, stem):
    assert program_stem(target) == stem


def test_a_module_is_called_by_its_last_two_names():
    names = ("train", "pkg.train", "vllm.entrypoints.openai.api_server", "pkg.tools.__main__")
    stems = ["train", "pkg.train", "openai.api_server", "pkg.tools"]
    assert [program_stem(name, module=True) for name in names] == stems


@pytest.mark.parametrize("line", [
    "--token hunter2", "--token=hunter2", "--hf-token hunter2", "--HF_TOKEN hunter2", "--hfToken hunter2",
    "--api-key hunter2", "--openai_apikey=hunter2", "--password hunter2", "--password -hunter2",
    "--wandb.key hunter2", "--client-secret-value hunter2", "-H 'Authorization: Bearer hunter2'",
    "+auth.token=hunter2", "--set lr=1,hf_token=hunter2", '--extra \'{"api_key": "hunter2"}\'',
    "--slack-webhook https://host/services/hunter2", "--db postgres://me:hunter2@host",
    "ftp://me:hunter2@host/x?y=hunter2"
])  # fmt: skip
def test_a_secret_is_in_no_name(line):
    args = shlex.split(line)
    stem = program_stem("train.py", [*args, "--lr", "1"])
    assert "hunter2" not in stem
    assert stem.endswith("lr=1")
    assert program_stem("train.py", [*args, "x" * 50]) == program_stem(
        "train.py", [*(word.replace("hunter2", "other") for word in args), "x" * 50]
    ), "the hash tells nothing either"


def test_numbers_of_tokens_and_keys_are_no_secrets():
    line = "--max-tokens 5 --tokenizer gpt2 --num-key-value-heads 8 --passes 2 --authors 3"
    assert program_stem("t.py", line.split()) == (
        "t-max-tokens=5,tokenizer=gpt2,num-key-value-heads=8,passes=2,authors=3"
    )


def test_what_is_left_out_for_its_length_is_still_told_apart():
    prompts = ["a long text that somebody wants to be continued, " + end for end in ("one", "two")]
    first, second = (program_stem("t.py", ["--prompt", prompt]) for prompt in prompts)
    assert re.fullmatch(r"t-prompt@[0-9a-f]{8}", first)
    assert first != second
    many = [f"--option-{i}={i}" for i in range(20)]
    assert program_stem("t.py", many) != program_stem("t.py", [*many, "--one-more"])
    assert program_stem("t.py", many).startswith("t-option-0=0,option-1=1,")
    long = "é" * 120
    assert re.fullmatch("é{35}@[0-9a-f]{8}", program_stem(f"{long}.py"))


words = st.text(max_size=40) | st.sampled_from(
    ["--", "-", "", "-x", "--token", "=", "-=", "..", ".meta", "/"]
)
anything = st.lists(words | st.text("-=/.@:\\", max_size=5) | words.map("--".__add__), max_size=12)


@given(anything, st.text(max_size=120))
def test_any_arguments_give_a_legal_name(args, program):
    for stem in (program_stem(f"{program}.py", args), program_stem(program, args, module=True)):
        assert 0 < len(stem.encode()) <= LONGEST
        assert all(letter.isalnum() or letter in ".=+-_,@" for letter in stem)
        assert stem[0] not in ".-"
        for suffix in (".json", ".json.gz"):
            assert may_be_trace(stem + suffix)
            assert trace_stem(stem + suffix) == stem, "the .meta.json is found"


@given(st.lists(st.text(min_size=1), max_size=12))
def test_a_name_depends_on_nothing_else(args):
    assert program_stem("a/t.py", args) == program_stem("b/t.py", iter(args))


plain_word = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
number = st.integers(-99, 99).map(str) | st.floats(-9, 9).map(str)
pair = st.tuples(st.sampled_from(["lr", "epochs", "batch-size", "amp"]), number | plain_word | st.none())


@given(st.lists(pair, max_size=15), st.lists(pair, max_size=15))
def test_ordinary_arguments_that_differ_have_names_that_differ(one, other):
    def args(pairs: list[tuple[str, str | None]]) -> list[str]:
        return [f"--{name}" if value is None else f"--{name}={value}" for name, value in pairs]

    stems = [program_stem("t.py", args(pairs)) for pairs in (one, other)]
    assert (stems[0] == stems[1]) == (one == other)
