"""An LSTM whose pointwise half is C, with torch's matrix products around it: python lstm.py

The same numbers and the same gradients as torch.nn.LSTM, from the same weights.
"""

from pathlib import Path

import torch

import wick

rnnt_ext = wick.load(Path(__file__).with_name("lstm_cell.c"))


class LSTM(torch.nn.LSTM):
    """One layer, one direction, (S, B, I) as in rnnt_ext."""

    def forward(self, x, state=None):
        B, H = x.shape[1], self.hidden_size
        h, c = (t[0] for t in state) if state else (x.new_zeros(B, H), x.new_zeros(B, H))
        # All input products at once: one large product is cheaper than S small ones.
        gates = x @ self.weight_ih_l0.t() + self.bias_ih_l0 + self.bias_hh_l0
        outputs = []
        for step in gates:
            h, c = rnnt_ext.lstm_cell(torch.addmm(step, h, self.weight_hh_l0.t()), c)
            outputs.append(h)
        return torch.stack(outputs), (h[None], c[None])


def main() -> None:
    torch.manual_seed(0)
    mine = LSTM(6, 8, dtype=torch.float64)
    theirs = torch.nn.LSTM(6, 8, dtype=torch.float64)
    theirs.load_state_dict(mine.state_dict())
    x = torch.randn(5, 3, 6, dtype=torch.float64)
    state = tuple(torch.randn(1, 3, 8, dtype=torch.float64, requires_grad=True) for _ in "hc")
    found = []
    for lstm in (mine, theirs):
        y, (h, c) = lstm(x, state)
        loss = y.square().sum() + h.sum() + c.sin().sum()
        grads = torch.autograd.grad(loss, [*lstm.parameters(), *state])
        found.append([y, h, c, *grads])
    torch.testing.assert_close(*found)
    print(f"{len(found[0])} tensors of the LSTM and its gradient equal torch's")


if __name__ == "__main__":
    main()
