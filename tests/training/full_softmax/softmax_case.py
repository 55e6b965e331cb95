"""A softmax of a batch of queries over a table: how far its results are from float64 formulas."""
import torch

RATE, EPSILON, WEIGHT, IN_BATCH = 0.1, 1e-10, 0.7, 12


class Case:
    """Numbers on a device: a table with states of 1, queries, and answers among the rows of the batch."""

    def __init__(self, queries, rows, dim, place="cpu", seed=0):
        random = torch.Generator(place).manual_seed(seed)

        def numbers(*shape):
            return torch.randn(*shape, device=place, generator=random)

        self.held = numbers(rows, -(-(2 * dim + 4) // 4) * 4)
        self.held[:, dim : 2 * dim] = 1.0
        self.query = 0.3 * numbers(queries, dim)
        self.scale = torch.rand(queries, device=place, generator=random) + 0.1
        batch = torch.randperm(rows, device=place, generator=random)[:IN_BATCH].sort().values
        self.target = batch[torch.randint(IN_BATCH, (queries,), device=place, generator=random)]
        self.batch = torch.cat([batch, torch.full((2,), rows, device=place)])  # the last two only pad

    def apply(self, softmax, targets):
        """loss, gradient by the queries, gradients aside and the table, of a softmax that is new."""
        table = self.held.clone()
        softmax.begin(table, self.batch)
        softmax.query.copy_(self.query)
        of_query = softmax.apply(table, targets, self.scale, None, WEIGHT)
        sums = table.new_full((len(self.batch), self.query.shape[1]), 0.25)  # to which they are added
        loss = softmax.end(self.batch, sums)
        return loss, of_query, sums[:IN_BATCH] - 0.25, table

    def errors(self, found, optimizer="adagrad"):
        """By name, relative to the largest number there; `kept`: whether the rows of the batch are as they were."""
        (rows, _), (queries, dim) = self.held.shape, self.query.shape
        start, query, scale = self.held[:, :dim].double(), self.query.double(), self.scale.double()
        scores = query @ start.t()
        log_sum = scores.logsumexp(1)
        loss = ((log_sum - scores.gather(1, self.target[:, None])[:, 0]) * scale).sum()
        slopes = (scores - log_sum[:, None]).exp()
        slopes[torch.arange(queries), self.target] -= 1
        slopes *= WEIGHT * scale[:, None]
        gradient = slopes.t() @ query
        step = gradient / ((1 + gradient**2).sqrt() + EPSILON) if optimizer == "adagrad" else gradient
        in_batch = torch.isin(torch.arange(rows, device=start.device), self.batch)
        table = found[3]

        def off(got, want, largest):
            return ((got.double() - want).abs().max() / largest.abs().max()).item()

        return {"loss": off(found[0], loss, loss), "query": off(found[1], slopes @ start, slopes @ start),
                "aside": off(found[2], gradient[self.batch[:IN_BATCH]], gradient),
                "rows": off(table[~in_batch, :dim], (start - RATE * step)[~in_batch], RATE * gradient),
                "kept": torch.equal(table[in_batch], self.held[in_batch])}
