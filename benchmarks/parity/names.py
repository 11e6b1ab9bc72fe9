"""The names that public teaching programs use, which the comparison must cover."""

_TENSORS = """
indexing assignment zeros unsqueeze view transpose size shape cat ones arange .data == tanh .to mean
contiguous squeeze masked_fill dim device matmul @ detach requires_grad argmax reshape bmm sin cos
ne permute exp numel randn .numpy sum repeat tril type no_grad tensor float32 float64 int64 uint8
bool .float .long .bool .double pow .cpu stack masked_fill_ multinomial clone len iteration lt sqrt
triu item Tensor FloatTensor LongTensor fill_ in-place t T one_hot & ~ expand split unbind var std
topk empty += ndim repeat_interleave max min einsum chunk new_zeros zeros_like backward manual_seed
Generator flip roll gather scatter index_select index_add cumsum sort argsort nonzero isnan allclose
equal clamp abs sign floor prod norm outer meshgrid linspace full eye bernoulli rand randint
randperm logsumexp inf save load cuda.is_available
"""

_NN = """
Module register_buffer apply named_* state_dict load_state_dict deepcopy Linear Embedding
from_pretrained Dropout Parameter ModuleList ModuleDict Sequential LayerNorm RMSNorm BatchNorm1d RNN
LSTM GRU RNNCell LSTMCell GRUCell MultiheadAttention Transformer TransformerEncoder
TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer ReLU GELU SiLU Tanh Sigmoid
Softmax LogSoftmax CrossEntropyLoss NLLLoss MSELoss BCEWithLogitsLoss KLDivLoss nn.init
clip_grad_norm_ pack_padded_sequence pad_packed_sequence pad_sequence
"""

_FUNCTIONAL = """
F.softmax F.cross_entropy F.log_softmax F.relu F.gelu F.one_hot F.nll_loss F.dropout F.layer_norm
F.embedding F.linear F.pad F.scaled_dot_product_attention
"""

_OPTIM = """
SGD Adam AdamW optim.groups optim.zero_grad optim.state_dict LambdaLR StepLR CosineAnnealingLR
OneCycleLR
"""

_DATA = "Dataset TensorDataset DataLoader random_split"

NAMES = {
    "tensors": _TENSORS.split(),
    "nn": _NN.split(),
    "functional": _FUNCTIONAL.split(),
    "optim": _OPTIM.split(),
    "utils.data": _DATA.split(),
}
