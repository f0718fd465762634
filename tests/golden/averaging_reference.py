"""Averaging among replicas from its equations (docs/averaging.md), deliberately simple:
every replica makes update n, then all of them merge what is due. No rounds, no messages, no chunks:
what was sent at update n is in the list of past weights.

At the boundary of update n: the update; merges of what was sent at n - lag; new contributions (lag
0: their merges); then forwards see the result. With a lag in fractions, merges come after so many
backwards of the next update, and forwards that start after them see the result. Only the replicas'
weights, steps or gradients are averaged. Nothing is shared with the C++ code except the subsets,
which it provides and `assert_cut` checks. A `case` is one of averaging_cases.py.
"""

import dataclasses
import itertools
import math

import torch

import delayed_reference as delayed

TERNARY_BLOCK = 512


def mean_of(tensors):
    return torch.stack(list(tensors)).mean(0)


def ema_constant(case, k):
    """m in round k: constant for a thousand rounds, then half a cosine that ends with the run."""
    if k <= 1000:
        return case.ema_start
    progress = (k - 1000) / (case.rounds - 1 - 1000)
    return case.ema_end + (case.ema_start - case.ema_end) * (1 + math.cos(math.pi * progress)) / 2


def sent_at(case, n, position=0):
    """The updates whose contributions are merged at update n, ascending; with a position, those
    merged after so many backwards of the update after it.

    At a checkpoint, and at the end, everything in flight is merged, including what is sent then.
    """
    every = case.checkpoint_every
    lag = round(case.lag * case.every)

    def merged_after(sent):
        checkpoint = -(-sent // every) * every if every else case.updates
        return min(sent * case.every + lag, min(checkpoint, case.updates) * case.every)

    rounds = range(case.interval, n + 1, case.interval)
    return [sent for sent in rounds if merged_after(sent) == n * case.every + position]


def newest(stage, n, position):
    return stage.newest(n) if position else stage.past[n]


def merged(stage, subset, values, position=0):
    """Writes the stage's newest weights; the last update stays as the optimizer left it."""
    n = len(stage.past) - 1
    state = newest(stage, n, position)
    weights = state.weights.clone()
    weights[subset] = values
    state = dataclasses.replace(state, weights=weights)
    if position:
        stage.inside[n] = position, state
    else:
        stage.past[n] = state


class Weights:
    """sparse, weights and diloco, for one stage of all replicas: the mean of weights is late."""

    def __init__(self, case, stages, subsets):
        """`subsets`: the coordinates of each round."""
        self.case, self.stages, self.subsets = case, stages, subsets
        start = stages[0].past[0].weights
        assert all(torch.equal(stage.past[0].weights, start) for stage in stages)
        self.ema = [torch.zeros_like(start) for _ in stages]  # e
        self.anchor = start.clone()  # x: the same in all replicas, like the means
        self.outer = torch.zeros_like(start)  # b

    def buffers(self, r):
        """What replica r keeps, by its name in a checkpoint."""
        return {"ema": self.ema[r], "anchor": self.anchor, "outer": self.outer}

    def boundary(self, n):
        self.merge(n)

    def merge(self, n, position=0):
        for sent in sent_at(self.case, n, position):
            k = sent // self.case.interval - 1
            subset = self.subsets[k]
            old = [stage.past[sent].weights[subset] for stage in self.stages]
            target = self.outer_step(subset, mean_of(old))
            for stage, own, ema in zip(self.stages, old, self.ema):
                steps = newest(stage, n, position).weights[subset] - own  # u
                merged(stage, subset, target + self.correction(k, subset, steps, ema), position)

    def follow(self, r, k, subset, mean):
        """Replica r takes a mean to which it has sent nothing: it lands there, and not past it."""
        if self.case.correction == "ema":
            self.ema[r][subset] *= ema_constant(self.case, k)  # u = 0
        self.anchor[subset], self.outer[subset] = mean, 0.0
        merged(self.stages[r], subset, mean)

    def outer_step(self, subset, mean):
        rate, mu = self.case.outer_rate, self.case.outer_momentum
        if rate == 1 and mu == 0:
            return mean
        g = self.anchor[subset] - mean
        self.outer[subset] = mu * self.outer[subset] + g
        self.anchor[subset] = self.anchor[subset] - rate * (g + mu * self.outer[subset])
        return self.anchor[subset]

    def correction(self, k, subset, steps, ema):
        if self.case.correction == "none":
            return torch.zeros_like(steps)
        if self.case.correction == "delta":
            return steps
        m = ema_constant(self.case, k)
        ema[subset] = m * ema[subset] + (1 - m) * steps
        return ema[subset]


def ternary_block(values, threshold):
    """Sign and mean magnitude of the large values; the magnitude is sent as bf16."""
    usual = threshold * values.square().mean().sqrt()
    kept = (values != 0) & (values.abs() >= torch.minimum(usual, 0.8 * values.abs().max()))
    if not kept.any():
        return torch.zeros_like(values)
    scale = values[kept].abs().mean().float().bfloat16().double()
    return torch.where(kept, values.sign() * scale, 0.0)


def compressed(case, values):
    """C. Owners add up chunks of a stage, and chunks consist of whole blocks."""
    if case.wire == "f32":
        return values.clone()
    assert case.wire == "ternary"
    return torch.cat(
        [ternary_block(block, case.threshold) for block in values.split(TERNARY_BLOCK)]
    )


class Steps:
    """lowbit, for one stage of all replicas: a common model, and each one's own steps beyond it."""

    def __init__(self, case, stages):
        self.case, self.stages = case, stages
        start = stages[0].past[0].weights
        self.common = start.clone()  # X
        self.own = [torch.zeros_like(start) for _ in stages]  # p
        self.flight = [torch.zeros_like(start) for _ in stages]  # f
        self.pending = [torch.zeros_like(start) for _ in stages]  # s
        self.momentum = torch.zeros_like(start)  # ub
        self.residual = torch.zeros_like(start)  # res, of all owners
        self.sent = {}  # q of each replica and Q, by update

    def buffers(self, r):
        """What replica r keeps, by its name in a checkpoint; the residual belongs to owners."""
        return {
            "common": self.common,
            "pending": self.pending[r],
            "momentum": self.momentum,
        }

    def boundary(self, n):
        for r, stage in enumerate(self.stages):
            self.own[r] += stage.past[n].last_update
        last = n == self.case.updates
        for sent in sent_at(self.case, n):
            if sent < n:
                self.apply(*self.sent.pop(sent))
        if n % self.case.interval == 0 or last:
            self.contribute(n, exact=last)
        if last:  # all that is left is merged
            for sent in sorted(self.sent):
                self.apply(*self.sent.pop(sent))
        elif n in self.sent and n in sent_at(self.case, n):
            self.apply(*self.sent.pop(n))

    def merge(self, n, position):
        for sent in sent_at(self.case, n, position):
            self.apply(*self.sent.pop(sent), position)

    def contribute(self, n, exact):
        code = code_of(self.case, exact)
        parts = [code(own - flight) for own, flight in zip(self.own, self.flight)]
        for flight, part in zip(self.flight, parts):
            flight += part
        wanted = mean_of(parts) + self.residual
        answer = code(wanted)
        self.residual = wanted - answer
        self.sent[n] = parts, answer

    def apply(self, parts, answer, position=0):
        case = self.case
        step, self.momentum = stepped(case, answer, self.momentum)
        self.common = self.common + step
        for r, stage in enumerate(self.stages):
            self.own[r] = self.own[r] - parts[r]
            self.flight[r] = self.flight[r] - parts[r]
            self.pending[r] = case.smoothing * self.pending[r] + answer - parts[r]
            kept = case.smoothing * self.pending[r]
            merged(stage, slice(None), self.common + self.own[r] - kept, position)


def code_of(case, exact):
    return torch.clone if exact else (lambda values: compressed(case, values))


class Member:
    """One replica's side of `lowbit` where answers come as they come: w = X + p - l s."""

    def __init__(self, case, pipeline, chunks):
        """`chunks`: where each of them is in its one stage."""
        self.case, self.pipeline, self.stage = case, pipeline, pipeline.stages[0]
        self.chunks = chunks
        start = self.stage.past[0].weights
        self.common, self.momentum = start.clone(), torch.zeros_like(start)  # X, ub
        self.own, self.pending = torch.zeros_like(start), torch.zeros_like(start)  # p, s
        self.under_way = [{} for _ in chunks]  # own contributions, by number
        self.applied = [0 for _ in chunks]

    def train_until(self, update):
        while len(self.stage.past) <= update:
            self.pipeline.update(self.pipeline.gradients())
            self.own += self.stage.past[-1].last_update

    def contribute(self, number, exact):
        for chunk, under_way in zip(self.chunks, self.under_way):
            unsent = self.own[chunk] - sum(under_way.values())
            under_way[number] = code_of(self.case, exact)(unsent)
        return [under_way[number] for under_way in self.under_way]

    def settle(self, c, counted):
        """What of its own the model has in it now. Parts of one sender are taken in order: what was
        overtaken is lost, and stays in p."""
        under_way = self.under_way[c]
        inside = sum(under_way.pop(number) for number in counted if number in under_way)
        for older in [n for n in under_way if n < max(counted, default=0)]:
            del under_way[older]
        self.own[self.chunks[c]] -= inside
        return inside

    def apply(self, c, answer, inside):
        """The next answer; None: it only says that somebody has ended."""
        self.applied[c] += 1
        if answer is None:
            return
        chunk, smoothing = self.chunks[c], self.case.smoothing
        step, self.momentum[chunk] = stepped(self.case, answer, self.momentum[chunk])
        self.common[chunk] += step
        own = self.settle(c, inside)
        self.pending[chunk] = smoothing * self.pending[chunk] + answer - own
        kept = smoothing * self.pending[chunk]
        merged(self.stage, chunk, self.common[chunk] + self.own[chunk] - kept)

    def take(self, c, number, common, momentum, counted):
        """The whole chunk, as this answer made it."""
        chunk, self.applied[c] = self.chunks[c], number
        self.settle(c, counted)
        self.common[chunk], self.momentum[chunk], self.pending[chunk] = common, momentum, 0.0
        merged(self.stage, chunk, common + self.own[chunk])


def stepped(case, answer, momentum):
    """What an answer adds to X, and ub after it."""
    y = case.gain_smoothing
    momentum = y * momentum + (1 - y) * answer
    return answer + case.gain * momentum, momentum


class Owner:
    """Numbers the answers of one chunk, and keeps what they have made of it."""

    def __init__(self, case, start):
        self.case = case
        self.residual, self.momentum = torch.zeros_like(start), torch.zeros_like(start)
        self.answers, self.inside = [None], [[]]  # numbers begin at 1
        self.models = [(start.clone(), self.momentum)]

    def reduce(self, number, inside, sent):
        """`inside`: which contributions are in it, of all that were sent."""
        assert number == len(self.answers)
        (common, momentum), answer = self.models[-1], None
        if inside:
            exact = any(is_exact for _, is_exact in (sent[part] for part in inside))
            wanted = sum(sent[part][0] for part in inside) / self.case.replicas + self.residual
            answer = code_of(self.case, exact)(wanted)
            self.residual = wanted - answer
            step, momentum = stepped(self.case, answer, momentum)
            common = common + step
        self.answers.append(answer)
        self.inside.append(inside)
        self.models.append((common, momentum))

    def own_of(self, replica, numbers):
        return [n for number in numbers for r, n in self.inside[number] if r == replica]


def train_on_arrival(case, constants, start, rows, parts, chunks):
    """`lowbit` on arrival with one stage. Only who did what, in which order, is given: rows of
    kind, replica, update, chunk and number, and what each answer, by chunk and number, has in
    it."""
    data = zip(start.ids, start.targets)
    pipelines = [delayed.Pipeline(case, constants, start.slices, *read) for read in data]
    members = [Member(case, pipeline, chunks) for pipeline in pipelines]
    owners = [Owner(case, members[0].common[chunk]) for chunk in chunks]
    sent = [{} for _ in chunks]  # and whether exactly
    for kind, replica, update, c, number in rows:
        member, owner = members[replica], owners[c]
        member.train_until(update)
        if kind == "contribute":
            last = update == case.updates
            for of_chunk, part in zip(sent, member.contribute(number, last)):
                of_chunk[replica, number] = part, last
        elif kind == "reduce":
            owner.reduce(number, parts[c, number], sent[c])
        elif number == member.applied[c] + 1:
            member.apply(c, owner.answers[number], owner.own_of(replica, [number]))
        else:
            missed = range(member.applied[c] + 1, number + 1)
            member.take(c, number, *owner.models[number], owner.own_of(replica, missed))
    return pipelines, members


def averagers_of(case, stages, subsets):
    """What happens at each boundary to one stage of all replicas."""
    if case.method == "allreduce":
        return []
    if case.method == "lowbit":
        return [Steps(case, stages)]
    everything = [slice(None)] * case.rounds
    return [Weights(case, stages, subsets if case.fraction < 1 else everything)]


@dataclasses.dataclass(frozen=True)
class Start:
    """What a run starts from and reads."""

    slices: list  # initial weights by name, for each stage: the same in all replicas
    ids: list  # [microbatches, sequences, context], for each replica
    targets: list
    subsets: list | None = None  # for each stage, coordinates for each round


def train(case, constants, start):
    """One pipeline for each replica, with its whole past, and the averagers of each stage."""
    data = zip(start.ids, start.targets)
    pipelines = [delayed.Pipeline(case, constants, start.slices, *read) for read in data]
    averagers = []
    for s in range(case.stages):
        stages = [pipeline.stages[s] for pipeline in pipelines]
        averagers.append(averagers_of(case, stages, start.subsets and start.subsets[s]))
    for n in range(1, case.updates + 1):
        gradients = [pipeline.gradients() for pipeline in pipelines]  # by replica and stage
        if case.method == "allreduce":
            gradients = [[mean_of(stage) for stage in zip(*gradients)]] * case.replicas
        for pipeline, own in zip(pipelines, gradients):
            pipeline.update(own)
        for averager in itertools.chain(*averagers):
            averager.boundary(n)
            for position in range(1, case.every):
                averager.merge(n, position)
    return pipelines, averagers


def assert_cut(case, subsets, parameters):
    """In every cycle, each group of neighbouring runs deals them out by a rotation of its own."""
    parts, length = math.ceil(1 / case.fraction), case.granularity
    runs = math.ceil(parameters / length)
    rotations = set()
    for first in range(0, len(subsets), parts):
        rotation = {}  # by group
        for j, subset in enumerate(subsets[first : first + parts]):
            taken = sorted({index // length for index in subset.tolist()})
            whole = [i for run in taken for i in range(run * length, (run + 1) * length)]
            assert subset.tolist() == [i for i in whole if i < parameters]
            for run in taken:
                group, place = divmod(run, parts)
                turn = (place - j) % parts
                assert rotation.setdefault(group, turn) == turn
            groups = [run // parts for run in taken]
            assert len(groups) == len(set(groups)) and len(groups) >= runs // parts
        cycle = subsets[first : first + parts]
        if len(cycle) == parts:
            assert torch.equal(torch.cat(cycle).sort().values, torch.arange(parameters))
        rotations |= {(first, group, turn) for group, turn in rotation.items()}
    if len(rotations) > 3 and parts > 1:
        assert len({turn for *_, turn in rotations}) > 1, "all rotations are the same"
