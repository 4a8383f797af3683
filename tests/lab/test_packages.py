"""Descriptions of packages, tags and sizes: what is read; no source package is on both sides."""

from collections import Counter
from types import SimpleNamespace

from vnait_lab.runs import package_tags, packages
from vnait_lab.runs.package_sizes import sized
from vnait_lab.runs.package_tags import tagged
from vnait_lab.runs.packages import paragraphs, parted, plan_of, verdict


def package(number, *, tags="use::viewing, role::program", source=None):
    lines = [f"Package: p{number}", f"Description: shows things, number {number}"]
    if source:
        lines.append(f"Source: {source} (1.0-2)")
    if tags:
        lines.append("Tag: " + tags.replace(", ", ",\n "))
    return "\n".join(lines)


def test_a_field_goes_on_in_lines_that_start_with_a_space():
    text = "Package: a\nTag: role::program,\n use::viewing\n\nPackage: b\nDescription: of: b\n"
    assert [*paragraphs(text.splitlines(keepends=True))] == [
        {"Package": "a", "Tag": "role::program, use::viewing"},
        {"Package": "b", "Description": "of: b"},
    ]


def test_programs_with_usual_tags_of_two_facets_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(package_tags, "ROWS", 2)
    packages = [
        package(0),
        package(1, tags="use::viewing, works-with::text, interface::x11, role::program", source="s"),
        package(2, tags="works-with::text, use::rare, role::program"),
        package(3, tags="use::viewing, role::shared-lib"),
        package(4, tags=None),
        package(5, tags="interface::x11, role::program"),
        package(0, tags="works-with::text, role::program"),  # the same description again
    ]
    (tmp_path / "available").write_text("\n\n".join(packages) + "\n")
    table, sources = tagged(tmp_path / "available")
    assert table.texts == [f"shows things, number {number}" for number in range(3)]
    assert table.labels == ["use::viewing", "use::viewing|works-with::text", "works-with::text"]
    assert sources == ["p0", "s", "p2"]


def test_sizes_are_decimal_logarithms_of_programs_that_have_one(tmp_path):
    packages = [
        package(0, source="s") + "\nInstalled-Size: 1000",
        package(1) + "\nInstalled-Size: 0",
        package(2),
        package(3, tags="role::shared-lib") + "\nInstalled-Size: 5",
        package(4, tags="role::program") + "\nInstalled-Size: 20",
    ]
    (tmp_path / "available").write_text("\n\n".join(packages) + "\n")
    table, sources = sized(tmp_path / "available")
    assert table.texts == ["shows things, number 0", "shows things, number 4"]
    assert table.labels == ["3.0000", "1.3010"] and table.task == "regression"
    assert sources == ["s", "p4"]


def test_no_source_package_is_on_both_sides(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "TEST", 20)
    tags = ["use::viewing, role::program", "works-with::text, role::program"]
    found = [package(row, tags=tags[row % 2], source=f"s{row // 4}") for row in range(240)]
    (tmp_path / "available").write_text("\n\n".join(found) + "\n")
    table, sources = tagged(tmp_path / "available")
    source_of = dict(zip(table.texts, sources, strict=True))
    learn, test = parted(table, sources, seed=0)
    assert (len(learn), len(test)) == (220, 20)
    assert not {source_of[text] for text in learn.texts} & {source_of[text] for text in test.texts}
    assert Counter(learn.texts + test.texts) == Counter(table.texts)
    assert parted(table, sources, seed=1)[1].texts != test.texts
    assert plan_of(table, sources, 0, [16]).test.texts == test.texts


def test_the_verdict_is_of_one_number_of_rows():
    def records(shots, **scores):
        return [
            SimpleNamespace(
                method=name, seed=seed, data={"shots": shots}, metrics={"micro_f1": score + seed / 1000}
            )
            for name, score in scores.items()
            for seed in range(3)
        ]

    found = records(200, vnait=0.5, none=0.6) + records(1000, vnait=0.7, none=0.6)
    assert [verdict(found, rows, ["none"]).word for rows in (200, 1000)] == ["refuted", "confirmed"]
