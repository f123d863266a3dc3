from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clbench.micro.build import build
from clbench.micro.pretrain import learning_rate_at
from clbench.micro.recipe import FineTuning, ModelShape, Pretraining, Recipe, Reinforcement
from clbench.micro.rl import advantages

TINY = Recipe(
    tokenizer_documents=2000,
    model=ModelShape(hidden_size=32, num_layers=1, num_heads=2, num_key_value_heads=1, head_size=16, mlp_size=48),
    pretraining=Pretraining(num_steps=20, rows=2, warmup_steps=2),
    sft=FineTuning(num_steps=2, batch_size=2, warmup_steps=1),
    rl=Reinforcement(num_steps=1, num_problems=2, num_samples=2, max_new_tokens=4),
)


def test_rate_warms_up_stays_and_decays() -> None:
    recipe = Pretraining(num_steps=1000, warmup_steps=100, decay_share=0.2, learning_rate=1.0)
    assert learning_rate_at(0, recipe) == pytest.approx(0.01)
    assert {learning_rate_at(step, recipe) for step in range(99, 800)} == {1.0}
    assert learning_rate_at(900, recipe) == pytest.approx(0.5)
    assert learning_rate_at(999, recipe) == pytest.approx(0.005)


def test_advantages_are_standardised_within_a_problem_and_zero_where_all_agree() -> None:
    import torch

    found = advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))
    deviation = (4 * 0.25 / 3) ** 0.5
    expected = torch.tensor([[0.5, -0.5, -0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]) / deviation
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


def test_build_reports_progress_goes_on_where_it_stopped_and_gives_the_same_weights(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    build(tmp_path / "a", recipe=TINY, compiled=False, progress=lambda *call: calls.append(call))
    assert ("pretraining", 20, 20) in calls
    assert calls[-1] == ("post", 1, 1)
    (tmp_path / "a" / ".build" / "post.json").unlink()
    (tmp_path / "a" / "manifest.json").unlink()
    calls.clear()
    build(tmp_path / "a", recipe=TINY, compiled=False, progress=lambda *call: calls.append(call))
    assert {stage for stage, _, _ in calls} == {"post"}
    build(tmp_path / "b", recipe=TINY, compiled=False)
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in "ab"]
    assert manifests[0] == manifests[1]


def test_a_folder_with_another_lineage_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".build").mkdir()
    (tmp_path / ".build" / "recipe.json").write_text("{}")
    with pytest.raises(ValueError, match="another recipe or seed"):
        build(tmp_path, recipe=replace(TINY, world_seed=1))


def test_packing_keeps_documents_whole_and_in_order_within_a_row() -> None:
    from clbench.micro.documents import Document
    from clbench.micro.pretrain import packed_rows

    class Letters:
        """A tokenizer of one token a letter."""

        def __call__(self, texts: list[str], add_special_tokens: bool) -> dict[str, Any]:
            return {"input_ids": [[ord(letter) for letter in text] for text in texts]}

    texts = ["a" * 5, "b" * 50, "c" * 12, "d" * 7]
    documents = iter([Document("statements", f"<{text}>", True) for text in texts])
    rows = packed_rows(documents, Letters(), 24)
    joined = ["".join(map(chr, next(rows))) for _ in range(2)]
    assert joined == ["<aaaaa><cccccccccccc>", "<ddddddd>"]
