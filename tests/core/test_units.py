"""Numbers as text: the same value at every border of a unit, no digit too many, no share that lies."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracetui.core import units
from tracetui.core.ascii_fallback import ASCII_FALLBACKS, encodable

SCALES = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
times = st.one_of(
    st.integers(0, 10**15),
    # Around every power of ten, where rounding could go over.
    st.builds(lambda power, off: max(0, 10**power + off), st.integers(0, 13), st.integers(-2000, 2000)),
)


def value_of(text: str) -> float:
    number, unit = text.rstrip().split(" ")
    return float(number.replace(",", "")) * SCALES[unit]


@given(times, st.integers(2, 5))
@example(999_960, 3)
@example(999_960, 4)
@example(999_499, 3)
@example(999_999_999, 3)
def test_durations_are_right_and_short(ns, digits):
    text = units.duration(ns, digits)
    number, unit = text.split(" ")
    assert value_of(text) == pytest.approx(ns, rel=0.51 * 10 ** (1 - digits), abs=0.5)
    if unit != "s":
        assert float(number) < 1000
    if unit != "ns":
        assert float(number.replace(",", "")) >= 1
        whole = len(number.partition(".")[0].replace(",", ""))
        assert len(re.sub(r"[.,]", "", number)) == max(digits, whole)
    assert units.duration(-ns, digits) == ("-" + text if ns else text)


@given(times, times)
def test_longer_is_never_written_as_shorter(a, b):
    low, high = sorted((a, b))
    assert value_of(units.duration(low)) <= value_of(units.duration(high))
    assert value_of(units.fixed(low)) <= value_of(units.fixed(high))


@given(times)
def test_columns_line_up(ns):
    text = units.fixed(ns)
    assert re.fullmatch(r"(\d{1,3}\.\d{3} (µs|ms)|[\d,]+\.\d{3} s )", text)
    assert units.exact(ns) == text.rstrip()
    assert value_of(text) == pytest.approx(ns, rel=0.51e-3, abs=0.5)


@given(times)
def test_instants_are_exact(ns):
    assert round(value_of(units.instant(ns))) == pytest.approx(ns, rel=1e-15, abs=0.1)
    assert units.instant(-ns) == ("-" + units.instant(ns) if ns else units.instant(ns))
    number, unit = units.tick(ns, 1).split(" ")
    assert round(float(number) * SCALES[unit]) == pytest.approx(ns, rel=1e-15, abs=0.1)


@given(st.floats(0, 1.5), st.integers(0, 2))
@example(0.9996, 1)
@example(0.0004, 1)
@example(0.5, 1)
@example(0.005, 0)
@example(0.00005, 2)
def test_shares_do_not_round_to_all_or_nothing(part, decimals):
    for text in (units.share(part), units.percent(part, decimals), units.share_of(part, 1)):
        assert (float(text.strip("<%")) == 100) <= (round(part, 3) >= 1)
        assert (text in ("0%", "0.0%", "0.00%")) == (part == 0)
        assert text.startswith("<") or float(text[:-1]) == pytest.approx(100 * part, abs=1)


@given(st.floats(0, 1e18))
@example(1023.6)
@example(1024**2 - 1)
@example(999.5)
@example(999_500)
def test_sizes(count):
    for function, base, names in (
        (units.size, 1000, ("B", "kB", "MB", "GB", "TB")),
        (units.memory_size, 1024, ("B", "KiB", "MiB", "GiB", "TiB")),
    ):
        number, unit = function(count).split(" ")
        power = names.index(unit)
        value = float(number.replace(",", ""))
        assert value * base**power == pytest.approx(count, rel=0.0051, abs=0.5)
        assert value < base or power == 4
        assert value >= 1 or power == 0


@pytest.mark.parametrize(("ns", "text"), [
    (0, "0 ns"), (850, "850 ns"), (999, "999 ns"), (999.6, "1.00 µs"), (1_000, "1.00 µs"),
    (15_328, "15.3 µs"), (99_960, "100 µs"), (999_499, "999 µs"), (999_500, "1.00 ms"),
    (2_495_792, "2.50 ms"), (999_999_999, "1.00 s"), (61_000_000_000, "61.0 s"),
    (5_000_000_000_000, "5,000 s"), (-1500, "-1.50 µs")
])  # fmt: skip
def test_durations(ns, text):
    assert units.duration(ns) == text


@pytest.mark.parametrize(("ns", "step", "text"), [
    (12_300_000, 10_000, "12.30 ms"), (12_000_000, 1_000_000, "12 ms"), (1_500_000_000, 500_000_000, "1.5 s"),
    (500, 100, "500 ns"), (1_234_567, 1, "1.234567 ms"), (-2_000, 1_000, "-2 µs"), (5, 1000, "5 ns")
])  # fmt: skip
def test_ticks(ns, step, text):
    assert units.tick(ns, step) == text


def test_columns_of_one_unit():
    assert [units.column_unit(ns) for ns in (0, 9.9e6, 10e6, 9.9e9, 10e9)] == ["µs", "µs", "ms", "ms", "s"]
    assert [units.in_unit(ns, "ms") for ns in (0, 1, 500, 501, -2)] == [
        "0.000", "<0.001", "0.001", "0.001", ">-0.001"
    ]  # fmt: skip
    assert (units.in_unit(1_234_567), units.in_unit(123_456_789_012, "ms")) == ("1,234.567", "123,456.789")


def test_the_others():
    assert [units.fixed(v) for v in (0, 999, 999_999, 1_000_000, 2_500_000_000)] == [
        "0.000 µs", "0.999 µs", "999.999 µs", "1.000 ms", "2.500 s "
    ]  # fmt: skip
    assert (units.instant(1_234_567), units.instant(12_345_678_901)) == ("1,234.567 µs", "12.345678901 s")
    shares = [units.share(v) for v in (0, 1e-6, 0.034, 0.0994, 0.0996, 0.97, 0.996, 0.99999, 1, 1.98)]
    assert shares == ["0.0%", "<0.1%", "3.4%", "9.9%", "10%", "97%", "99.6%", "99.9%", "100%", "198%"]
    assert (units.share_of(1, 3), units.share_of(1, 0), units.percent(0.346, 1)) == ("33.33%", "-", "34.6%")
    assert (units.rate(694e12, "FLOP/s"), units.rate(999.6e9, "B/s")) == ("694 TFLOP/s", "1.00 TB/s")
    assert [units.size(n) for n in (4, 33_554_432, 1e13)] == ["4 B", "33.6 MB", "10.0 TB"]
    assert [units.memory_size(n) for n in (100, 1536, 3 << 30)] == ["100 B", "1.50 KiB", "3.00 GiB"]
    assert [units.plural(n, "match") for n in (1, 1000)] == ["1 match", "1,000 matches"]
    assert (units.plural(0, "gap"), units.plural(20, "copy", "copies")) == ("0 gaps", "20 copies")
    assert (units.verb(1, "take"), units.verb(2, "take")) == ("takes", "take")


def test_twins_stand_in_for_what_an_encoding_lacks():
    text = "2 µs → 计"
    found = [encodable(text, encoding) for encoding in ("utf-8", "latin-1", "ascii")]
    assert found == [text, "2 µs > ?", "2 us > ?"]
    assert encodable("█▏…", "ascii") == "#|~"


def test_twins_are_one_cell_of_ascii():
    assert all(len(key) == len(twin) == 1 and twin.isascii() for key, twin in ASCII_FALLBACKS.items())


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0 ns"), (60_000_000, "60 ms"), (-1500, "-1.5 µs"), (123_456_789, "123.456789 ms")]
)
def test_a_time_without_zeros_at_its_end(ns, text):
    assert units.as_typed(ns) == text
