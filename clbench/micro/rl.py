"""Reinforcement learning: GRPO (arXiv 2402.03300) with exact verification as the reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clbench.micro.documents import Stream
from clbench.micro.draw import Draw
from clbench.micro.finetune import collate, encode
from clbench.micro.pretrain import IGNORED
from clbench.micro.recipe import Reinforcement
from clbench.micro.sampling import answer_of, sample
from clbench.micro.world import World

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def advantages(rewards: torch.Tensor) -> torch.Tensor:
    """Rewards `[problems, samples]` against their problem's mean, in its standard deviations; 0 where all agree."""
    centred = rewards - rewards.mean(1, keepdim=True)
    return centred / (rewards.std(1, keepdim=True) + 1e-4)


def reinforce(
    model: PreTrainedModel,
    world: World,
    tokenizer: Any,
    recipe: Reinforcement,
    *,
    seed: int,
    progress: Callable[[int, int], None],
) -> dict[str, float]:
    """Train `model` in place. Returns facts: steps, sampled tokens, mean reward of the first and last 25 steps."""
    import torch

    stream, draw = Stream(world, seed, "rl"), Draw(seed, "rl problems")
    generator = torch.Generator().manual_seed(draw.below(2**31))
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.0, fused=True)
    mean_rewards: list[float] = []
    num_tokens = 0
    for step in range(recipe.num_steps):
        optimizer.param_groups[0]["lr"] = recipe.learning_rate * min(1.0, (step + 1) / recipe.warmup_steps)
        problems = stream.questions(recipe.num_problems, recipe.mixture)
        asked = [q for q in problems for _ in range(recipe.num_samples)]
        prompts = [prompt for prompt, _ in encode(tokenizer, asked)]
        completions = sample(
            model,
            tokenizer,
            prompts,
            max_new_tokens=recipe.max_new_tokens,
            temperature=recipe.temperature,
            generator=generator,
        )
        right = [world.verify(q, answer_of(tokenizer, c)) for q, c in zip(asked, completions, strict=True)]
        rewards = torch.tensor(right, dtype=torch.float32).view(recipe.num_problems, recipe.num_samples)
        mean_rewards.append(rewards.mean().item())
        num_tokens += sum(map(len, completions))
        weights = advantages(rewards).flatten()
        useful = weights.nonzero()[:, 0].tolist()
        if useful:
            pairs = [(prompts[i], completions[i]) for i in useful]
            _update(model, optimizer, pairs, weights[useful], tokenizer.pad_token_id, recipe)
        progress(step + 1, recipe.num_steps)
    return {
        "steps": recipe.num_steps,
        "tokens": num_tokens,
        "first_reward": round(sum(mean_rewards[:25]) / len(mean_rewards[:25]), 4),
        "last_reward": round(sum(mean_rewards[-25:]) / len(mean_rewards[-25:]), 4),
    }


def _update(
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    pairs: list[tuple[list[int], list[int]]],
    weights: torch.Tensor,
    pad: int,
    recipe: Reinforcement,
) -> None:
    import torch
    from torch.nn.functional import cross_entropy

    model.train()
    ids, labels = collate(pairs, pad)
    logits = model(input_ids=ids, use_cache=False).logits
    surprisals = cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], ignore_index=IGNORED, reduction="none")
    num_sampled = (labels != IGNORED).sum()
    loss = (surprisals.sum(1) * weights).sum() / num_sampled
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
