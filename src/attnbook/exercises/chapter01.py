"""Chapter 01, words and order."""

import torch
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom


def one_hot(ids: Tensor, size: int) -> Tensor:
    """ids (time,) -> (time, size) with a single 1 in each row."""
    return torch.eye(size)[ids]


def bag(ids: Tensor, size: int) -> Tensor:
    """How often each of `size` words occurs in ids (time,)."""
    return one_hot(ids, size).sum(0)


def cosine(E: Tensor) -> Tensor:
    """Cosine similarity of every two rows of E (words, d)."""
    unit = E / E.norm(dim=1, keepdim=True)
    return unit @ unit.T


def _cosine_with(norms):
    return lambda E: E @ E.T / norms(E)


IDS, OTHER_IDS = torch.tensor([2, 0, 2, 1]), torch.tensor([4, 1, 5, 1, 1, 0])

EXERCISES = [
    Exercise(
        name="one_hot",
        truth=one_hot,
        cases=[(IDS, 4), (OTHER_IDS, 7)],
        shown=(
            "编号只是名字；独热向量让每个词占一个自己的方向，谁也不比谁更近。",
            "An id is only a name; a one-hot vector gives each word a direction of its own, and no two are "
            "closer than others.",
        ),
        slips=[
            Slip(
                "transposed",
                lambda ids, size: one_hot(ids, size).T,
                "转置了：每一行应该是一个词，每一列是词表里的一个编号。",
                "Transposed: each row should be a word of the sentence, each column an id of the vocabulary.",
            ),
            Slip(
                "added up",
                bag,
                "加在一起了，这已经是词袋；先让每个词各占一行。",
                "Added up, this is a bag already; give each word a row of its own first.",
            ),
            Slip(
                "ids in place of ones",
                lambda ids, size: one_hot(ids, size) * ids[:, None],
                "位置对了，但写进去的是编号，应该写 1：编号的大小没有意义。",
                "The places are right, but they hold the ids instead of 1: the size of an id means nothing.",
            ),
            Slip(
                "counted from one",
                lambda ids, size: one_hot((ids - 1) % size, size),
                "差了一格：编号从 0 数起，编号 0 对应第 0 列。",
                "Off by one: ids count from 0, and id 0 belongs to column 0.",
            ),
            Slip(
                "one row for each id of the vocabulary",
                lambda ids, size: torch.eye(size),
                "这是单位矩阵，一行一个编号；还要按句子里的次序取出它的行。",
                "This is the identity, one row for each id; its rows are still to be taken in the order "
                "of the sentence.",
            ),
        ],
        symptoms=[
            Symptom(
                "not a single 1 in each row",
                lambda rows, ids, size: bool((rows.sum(-1) == 1).all() and (rows.amax(-1) == 1).all()),
                "每一行应该恰好有一个 1，其余为 0：",
                "Each row should hold exactly one 1, and 0 elsewhere:",
            ),
        ],
    ),
    Exercise(
        name="bag",
        truth=bag,
        cases=[(IDS, 4), (OTHER_IDS, 7)],
        shown=(
            "词袋是独热向量之和；求和不分先后，词序就在这一步丢了。",
            "A bag is a sum of one-hot vectors; a sum knows no first and last, and this is where the order "
            "is lost.",
        ),
        slips=[
            Slip(
                "set instead of bag",
                lambda ids, size: (bag(ids, size) > 0).float(),
                "这是集合：只记了有没有，没有记几次。",
                "This is a set: it says whether a word occurs, not how often.",
            ),
            Slip(
                "last word only",
                lambda ids, size: one_hot(ids, size)[-1],
                "只剩最后一个词了：前面的被覆盖了吗？",
                "Only the last word is left: were the others overwritten?",
            ),
            Slip(
                "frequencies",
                lambda ids, size: bag(ids, size) / len(ids),
                "这是频率；题目要的是次数，不除以句长。",
                "These are frequencies; counts are asked for, not divided by the length.",
            ),
            Slip(
                "sum of the ids",
                lambda ids, size: bag(ids, size) * torch.arange(size),
                "次数又乘上了编号：编号只是名字，不能参加运算。",
                "The counts were multiplied by the ids: an id is a name and takes no part in sums.",
            ),
            Slip(
                "not added up",
                one_hot,
                "这还是一行一个词的独热矩阵；对词求和才是词袋。",
                "This is still the one-hot matrix with a row for each word; summed over the words it "
                "becomes a bag.",
            ),
            Slip(
                "added over the vocabulary",
                lambda ids, size: one_hot(ids, size).sum(1),
                "求和的方向错了：应该对句子里的词求和，留下词表那一维。",
                "The sum runs the wrong way: sum over the words of the sentence and keep the dimension of "
                "the vocabulary.",
            ),
        ],
        symptoms=[
            Symptom(
                "counts do not sum to the length",
                lambda counts, ids, size: counts.sum().item() == len(ids),
                "所有次数之和应该等于句长，现在不等：",
                "The counts should sum to the length of the sentence, and here they do not:",
            ),
        ],
    ),
    Exercise(
        name="cosine",
        truth=cosine,
        cases=[
            (torch.tensor([[3.0, 4.0], [0.0, 2.0], [-6.0, -8.0]]),),
            (torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64),),
        ],
        shown=(
            "余弦只看方向：同向是 1，垂直是 0，反向是 −1，向量多长都一样。",
            "The cosine sees directions only: 1 for the same, 0 for a right angle, −1 for opposite, however "
            "long the vectors.",
        ),
        slips=[
            Slip(
                "dot products",
                lambda E: E @ E.T,
                "这是点积：长的向量占便宜。还要除以两个向量的长度。",
                "These are dot products, which favour long vectors. Divide by the lengths of both.",
            ),
            Slip(
                "one length only",
                _cosine_with(lambda E: E.norm(dim=1, keepdim=True)),
                "只除了一个向量的长度；两个都要除，所以结果应该是对称的。",
                "Divided by the length of one vector only; both count, so the result should be symmetric.",
            ),
            Slip(
                "squared lengths",
                _cosine_with(lambda E: E.square().sum(1, keepdim=True) * E.square().sum(1)),
                "除以了长度的平方：长度是平方和的平方根。",
                "Divided by squared lengths: a length is the root of the sum of squares.",
            ),
            Slip(
                "columns normalised",
                lambda E: (E / E.norm(dim=0)) @ (E / E.norm(dim=0)).T,
                "归一化的是列（特征）；一个词是一行。",
                "Columns (features) were normalised; a word is a row.",
            ),
            Slip(
                "one length for all",
                _cosine_with(lambda E: E.norm() ** 2),
                "除以了整个矩阵的范数；每个词有自己的长度。",
                "Divided by the norm of the whole matrix; each word has a length of its own.",
            ),
            Slip(
                "distances",
                lambda E: torch.cdist(E, E),
                "这是距离，越像越小；余弦相似度越像越大，最大是 1。",
                "These are distances, small for what is alike; cosine similarity is large for what is "
                "alike, at most 1.",
            ),
        ],
        symptoms=[
            Symptom(
                "diagonal is not 1",
                lambda S, E: torch.allclose(S.diagonal(), torch.ones(len(E)).double(), atol=1e-4),
                "每个词与自己的余弦应该是 1，你的对角线不是：",
                "A word's cosine with itself should be 1, and on your diagonal it is not:",
            ),
        ],
    ),
    Exercise(
        name="orders",
        truth=60.0,
        tolerance=(0.0, 1e-6),
        shown=(
            "这 60 个句子共用一个词袋；只看词袋的模型对它们一视同仁。",
            "These 60 sentences share one bag; whatever sees bags only treats them all alike.",
        ),
        slips=[
            Slip(
                "equal words counted apart",
                120,
                "这是 5!，把两个“小”当成了不同的词；交换它们，句子并不变。",
                "This is 5!, which takes the two equal words for different ones; swap them, and the sentence "
                "does not change.",
            ),
            Slip(
                "different words only",
                24,
                "这是 4!，只排了四个不同的词；句子有五个位置。",
                "This is 4!, an order of the four different words; the sentence has five places.",
            ),
            Slip(
                "any word in any place",
                4**5,
                "这是每个位置任选一个词；词袋规定了每个词恰好用几次。",
                "This lets each place choose any word; the bag says exactly how often each is used.",
            ),
            Slip(
                "choices of places",
                10,
                "这只是给两个“小”选位置的办法；另外三个词还要排一排。",
                "These are only the ways to place the two equal words; the other three are still to be "
                "ordered.",
            ),
            Slip(
                "divided twice",
                30,
                "除多了：只有一个词出现两次，只除以一次 2!。",
                "Divided once too often: only one word occurs twice, so divide by 2! once.",
            ),
            Slip(
                "number of words",
                5,
                "这是词数。想一想第一个位置有几种选法，第二个又有几种。",
                "This is the number of words. How many choices has the first place, and then the second?",
            ),
        ],
    ),
    Exercise(
        name="chance",
        truth=0.65,
        tolerance=(0.0, 1e-3),
        shown=(
            "每个词袋只能给一个答案，最好的是多数；少数派的句子，再聪明的词袋分类器也必错。",
            "A bag gets a single answer, at best the majority's; on the sentences of the minority even the "
            "cleverest classifier of bags is wrong.",
        ),
        slips=[
            Slip(
                "chance",
                0.5,
                "一半是三个词袋都势均力敌时的答案；这里有两个词袋偏向一边。",
                "One half would be right if all three bags were evenly split; two of them lean to one side.",
            ),
            Slip(
                "one answer for all",
                0.55,
                "这是对所有句子都答“真”的正确率；不同的词袋可以给不同的答案。",
                "This is what answering “true” everywhere gets; different bags may get different answers.",
            ),
            Slip(
                "mean of the rates",
                2 / 3,
                "把三个词袋的比例直接平均了；词袋有大有小，要数句子。",
                "The three rates were averaged as they are; bags differ in size, so count sentences.",
            ),
            Slip(
                "percent",
                65,
                "数对了，写成 0 到 1 之间的比例。",
                "The number is right; write it as a share between 0 and 1.",
            ),
            Slip(
                "errors",
                0.35,
                "这是错误率。",
                "This is the share of errors.",
            ),
            Slip(
                "perfect",
                1.0,
                "同一个词袋里既有真也有假，一个答案不可能两边都对。",
                "A bag that holds both true and false sentences gets one answer, which cannot be right for "
                "both.",
            ),
        ],
    ),
]
