from __future__ import annotations

from itertools import islice

import pytest

from clbench.micro.documents import Stream
from clbench.micro.facts import REVERSE_PAIRS, SECOND_HOPS, state
from clbench.micro.question import with_demonstration, with_passage
from clbench.micro.world import Question, Split, World

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@pytest.fixture(scope="module")
def world() -> World:
    return World(0)


@pytest.fixture(scope="module")
def documents(world: World) -> list[str]:
    return [document.text for document in islice(Stream(world, 0, "pretraining").documents(), 30_000)]


@pytest.fixture(scope="module")
def post_training(world: World) -> list[Question]:
    return Stream(world, 0, "sft").questions(10_000) + Stream(world, 0, "rl").questions(10_000)


@pytest.mark.parametrize("skill", World.skills + World.new_skills)
def test_equal_arguments_give_equal_questions_and_longer_lists_begin_with_shorter(skill: str) -> None:
    first = World(3).questions(skill, "test", 40, seed=5)
    assert World(3).questions(skill, "test", 60, seed=5)[:40] == first
    assert World(3).questions(skill, "test", 40, seed=6) != first


def test_worlds_of_different_seeds_differ(world: World) -> None:
    assert World(1).new_facts != world.new_facts


@pytest.mark.parametrize("skill", World.skills + World.new_skills)
def test_splits_share_no_prompt_even_across_seeds(world: World, skill: str) -> None:
    prompts = {
        split: {q.prompt for seed in (0, 1) for q in world.questions(skill, split, 150, seed=seed)} for split in SPLITS
    }
    assert not prompts["train"] & prompts["test"]
    assert not prompts["train"] & prompts["validation"]
    assert not prompts["validation"] & prompts["test"]


@pytest.mark.parametrize("skill", World.skills + World.new_skills)
def test_every_skill_has_enough_items(world: World, skill: str) -> None:
    for split, num in (("test", 400), ("validation", 200)):
        questions = world.questions(skill, split, num)  # type: ignore[arg-type]
        assert len({q.id for q in questions}) == len({q.prompt for q in questions}) == num


def test_test_sums_are_not_trained_on_in_either_order(world: World, post_training: list[Question]) -> None:
    def pair(question: Question) -> tuple[str, ...]:
        return tuple(sorted(question.id.split("/")[1].split("+")))

    trained = {pair(q) for q in post_training if q.skill == "addition"}
    for split in ("validation", "test"):
        assert not trained & {pair(q) for q in world.questions("addition", split, 300)}  # type: ignore[arg-type]


def test_no_test_prompt_stands_in_the_training_texts(
    world: World, documents: list[str], post_training: list[Question]
) -> None:
    texts = "\n".join(documents + [q.prompt for q in post_training])
    for skill in world.skills:
        for split in ("validation", "test"):
            for question in world.questions(skill, split, 150):  # type: ignore[arg-type]
                assert question.prompt not in texts, question.id


def test_new_people_are_in_no_training_text(world: World, documents: list[str], post_training: list[Question]) -> None:
    texts = "\n".join(documents + [q.prompt + q.thoughts + q.answer for q in post_training])
    assert not [person.name for person in world.new_people if person.name in texts]
    assert sum(person.name in texts for person in world.old_people) == len(world.old_people)


def test_the_new_skill_is_in_no_training_text(
    world: World, documents: list[str], post_training: list[Question]
) -> None:
    from clbench.micro.skills import DIFFERENCE_QUESTIONS

    texts = documents + [q.prompt for q in post_training]
    stems = [question.split("{")[0] for question in DIFFERENCE_QUESTIONS[1:]]
    for question in world.questions("subtraction", "train", 300):
        assert question.prompt not in texts
    assert not [text for text in texts if " minus " in text and text.startswith("what is ")]
    assert not [text for text in texts if text.startswith(tuple(stems)) and " from " in text]


def test_old_new_and_fresh_people_have_different_names(world: World) -> None:
    old, new = {p.name for p in world.old_people}, {p.name for p in world.new_people}
    assert (len(old), len(new), len(old & new)) == (240, 60, 0)
    for split in SPLITS:
        for question in world.questions("reading", split, 200):
            assert not [name for name in old | new if name in question.prompt]


def test_reverse_questions_have_one_answer(world: World) -> None:
    for first, second in REVERSE_PAIRS:
        pairs = {(p.values[first], p.values[second]) for p in world.people.values()}
        assert len(pairs) == len(world.people)


def test_new_facts_are_sixty_people_times_four_relations(world: World) -> None:
    assert len(world.new_facts) == 240
    assert len({(fact.person, fact.relation) for fact in world.new_facts}) == 240


@pytest.mark.parametrize("skill", World.skills + World.new_skills)
def test_gold_answers_verify_and_others_do_not(world: World, skill: str) -> None:
    for question in world.questions(skill, "test", 100):
        assert world.verify(question, f"  {question.answer} ")
        assert not world.verify(question, question.answer + " x")
        assert not world.verify(question, "")


def test_sums_and_differences_are_right(world: World) -> None:
    for question in world.questions("addition", "test", 200):
        a, b = question.id.split("/")[1].split("+")
        assert int(question.answer) == int(a) + int(b)
        digits = [step.split("=")[1] for step in question.thoughts.split(",")]
        assert digits[-1].lstrip("0") + "".join(d[1] for d in reversed(digits[:-1])) == question.answer
    for question in world.questions("subtraction", "test", 200):
        a, b = question.id.split("/")[1].split("-")
        assert int(question.answer) == int(a) - int(b)
        digits = "".join(step.rsplit(" ", 1)[1] for step in question.thoughts.split("; "))
        assert int(digits[::-1]) == int(question.answer)


def test_list_formats_are_right(world: World) -> None:
    for question in world.questions("format", "test", 400):
        given, _, wanted = question.id.removeprefix("format/").partition("/")
        assert question.prompt == f"write {given} {wanted}."
        words = given.split()
        if "last first" in wanted:
            words.insert(0, words.pop())
        if "backwards" in wanted:
            words.reverse()
        if "twice" in wanted:
            words += words
        separators = {"commas": ", ", "dashes": " - ", "slashes": " / "}
        mark = next((mark for name, mark in separators.items() if name in wanted), " ")
        assert question.answer == mark.join(words)


def test_reading_passages_hold_the_answer_and_its_person(world: World) -> None:
    for question in world.questions("reading", "test", 200):
        passage = question.prompt.rsplit("\n", 1)[0]
        assert question.answer in passage
        assert any(" ".join(question.thoughts.split()[i : i + 2]) in passage for i in range(3))


def test_fact_passages_state_every_fact(world: World) -> None:
    for person in world.new_people:
        passage = world.fact_passage(person.name)
        for fact in person.facts:
            assert any(state(fact, form) in passage for form in range(4))


def test_two_hop_goes_through_the_first_hop(world: World) -> None:
    fact = next(fact for fact in world.new_facts if fact.relation == "city")
    question = world.two_hop_question(fact)
    assert fact.value not in question.prompt
    assert fact.value in question.thoughts
    assert question.answer == world.second_hop("city", fact.value)
    with pytest.raises(ValueError, match="pet"):
        world.two_hop_question(next(fact for fact in world.new_facts if fact.relation == "pet"))
    assert set(SECOND_HOPS) == {"city", "job"}


def test_neighbours_share_a_name_and_strangers_do_not(world: World) -> None:
    new_names = {name for person in world.new_people for name in person.name.split()}
    for question in world.neighbour_questions("test", 150):
        assert new_names & set(question.id.split("/")[1].split())
    for question in world.stranger_questions("test", 150):
        assert not new_names & set(question.id.split("/")[1].split())


def test_trained_and_paraphrase_forms_are_all_forms_once(world: World) -> None:
    assert sorted(world.trained_forms + world.paraphrase_forms) == [0, 1, 2, 3, 4]
    fact = world.new_facts[0]
    assert len({world.fact_question(fact, form).prompt for form in range(5)}) == 5


def test_unknown_skills_and_too_many_questions_are_refused(world: World) -> None:
    with pytest.raises(ValueError, match="subtraction"):
        world.questions("juggling", "test", 1)
    with pytest.raises(ValueError, match="only"):
        world.questions("recall", "validation", 5000)
    with pytest.raises(ValueError, match="digits"):
        world.questions("recall", "test", 1, digits=3)


def test_contexts_are_plain_text() -> None:
    assert with_passage("where?", "a is in b.") == "a is in b.\nwhere?"
    assert with_demonstration("where?", "here so b") == "where?\nexample: here so b\nnow you:"
