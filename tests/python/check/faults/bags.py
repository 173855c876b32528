"""What bags means, of offsets that rise from 0 to the last one and rows that are there."""

import torch


def bags(table, which, at):
    if int(at[0]) != 0 or int(at[-1]) != len(which) or bool((at.diff() < 0).any()):
        raise ValueError("at must rise from 0 to the end of which")
    if bool((which < 0).any()) or bool((which >= len(table)).any()):
        raise IndexError("which must name rows of table")
    bag = torch.repeat_interleave(torch.arange(len(at) - 1), at.diff())
    return table.new_zeros(len(at) - 1, table.shape[1]).index_add(0, bag, table[which])
