"""The claims of the short studies, each study with its figure."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab import studies
from vnait_lab.page.parts import Judged, Section, table
from vnait_lab.records import where
from vnait_lab.study import Findings, Study

TEXT = """## Claims about positions

Claims of the source documents (000, 001, 003 and 004, as [faithfulness.md](../docs/faithfulness.md) names
them) and of the field, one study each. The rules of the verdicts are in `src/vnait_lab/studies`. Command:
`vnait study all --out studies/records/claims`; for a single study: `vnait study NAME`."""


def section(records: list[Record]) -> Section:
    parts: list[str] = []
    claims: list[Judged] = []
    for study in map(studies.load, studies.NAMES):
        findings = Findings.of(where(records, name=study.name))
        judgements = judged(study, findings)
        parts.append(part(study, findings, judgements))
        claims += judgements
    return Section("\n\n".join([TEXT, *parts]), inside=claims)


def judged(study: Study, findings: Findings) -> list[Judged]:
    seeds = len({seed for _, seed in findings.runs})
    return [
        Judged(
            claim.statement,
            study.verdict(claim, findings),
            f"vnait study {study.name}",
            source=claim.source,
            seeds=seeds,
            figure=f"claims/figures/{study.name}.png",
        )
        for claim in study.claims
    ]


def part(study: Study, findings: Findings, claims: list[Judged]) -> str:
    """One study: its verdicts, how it was made, its figure."""
    lines = [[claim.statement, claim.source, claim.verdict.word, claim.summary] for claim in claims]
    failed = (
        "all failed" if all(control.fails(findings) for control in study.controls) else "did not all fail"
    )
    controls = "; ".join(control.statement for control in study.controls)
    variants = "; ".join(f"`{name}`: {what}" for name, what in study.variants.items())
    return f"""### {study.name}: {study.subject}

{table(["claim", "source", "verdict", "what was found"], lines)}

Data: {study.data}. Measure: {study.measure}. Smallest effect that matters: {study.smallest}. Seeds:
{study.full.seeds}. Controls, which {failed}: {controls}. Arms: {variants}.

![{study.subject}](records/claims/figures/{study.name}.png)"""
