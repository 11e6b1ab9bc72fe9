"""Optimizers and schedules: one step and several."""

_START = (
    "l = m(nn.Linear(3, 2)); a, t = x.plain(4, 3), x.plain(4, 2); "
    "train = lambda o, n, s=None: [(o.zero_grad(), F.mse_loss(l(a), t).backward(), o.step(), "
    "s.step() if s else None, o.param_groups[0]['lr'])[-1] for _ in range(n)]; "
)


def _steps(name, *options):
    for option in options:
        for count in (1, 7):
            yield (
                f"{_START}o = torch.optim.{name}(l.parameters(), {option}); "
                f"train(o, {count}); l.weight, l.bias"
            )


def _errors(name):
    yield f"!torch.optim.{name}([], lr=0.1)"
    yield f"!torch.optim.{name}([x(3)], lr=-0.1)"
    yield f"!torch.optim.{name}([x(3) * 2], lr=0.1)"
    yield f"!torch.optim.{name}(x(3), lr=0.1)"
    yield f"!torch.optim.{name}([3], lr=0.1)"


def _defaults(name, keys):
    yield f"o = torch.optim.{name}([x(3)]); {{k: o.defaults[k] for k in {keys}}}"


def _schedule(name, *options):
    for option in options:
        yield (
            f"{_START}o = torch.optim.SGD(l.parameters(), lr=0.1, momentum=0.9); "
            f"s = torch.optim.lr_scheduler.{name}(o, {option}); train(o, 12, s), l.weight, "
            "s.get_last_lr()"
        )
        yield (
            f"o = torch.optim.Adam([{{'params': [x(2)]}}, {{'params': [x(2)], 'lr': 0.01}}], lr=0.1); "
            f"s = torch.optim.lr_scheduler.{name}(o, {option}); "
            "[(o.step(), s.step(), [g['lr'] for g in o.param_groups])[-1] for _ in range(6)]"
        )
    option = options[0]
    yield (
        "o = torch.optim.SGD([x(2)], lr=0.1); k = torch.optim.SGD([x(2)], lr=0.1); "
        f"s = torch.optim.lr_scheduler.{name}(o, {option}); [(o.step(), s.step()) for _ in range(4)]; "
        f"r = torch.optim.lr_scheduler.{name}(k, {option}); r.load_state_dict(s.state_dict()); "
        "k.load_state_dict(o.state_dict()); r.last_epoch, "
        "[(k.step(), r.step(), k.param_groups[0]['lr'])[-1] for _ in range(4)]"
    )


TABLE = {
    "SGD": "\n".join(
        [
            *_steps(
                "SGD",
                "lr=0.1",
                "lr=0.1, momentum=0.9",
                "lr=0.1, weight_decay=0.1",
                "lr=0.1, momentum=0.9, weight_decay=0.01",
                "lr=0.1, momentum=0.9, nesterov=True",
                "lr=0.1, momentum=0.9, dampening=0.3",
                "0.05",
            ),
            *_errors("SGD"),
            *_defaults("SGD", ["lr", "momentum", "weight_decay"]),
            "!torch.optim.SGD([x(3)], lr=0.1, nesterov=True)",
            "a = x(3); o = torch.optim.SGD([a], lr=0.1); o.step(); a",
            "a = x(3); o = torch.optim.SGD([a], 0.1); f = lambda: (o.zero_grad(), l := (a * a).sum(), "
            "l.backward())[1]; o.step(f).detach(), a",
        ]
    ),
    "Adam": "\n".join(
        [
            *_steps(
                "Adam",
                "lr=0.1",
                "lr=0.1, betas=(0.5, 0.9)",
                "lr=0.1, eps=1e-3",
                "lr=0.1, weight_decay=0.1",
                "lr=0.1, betas=(0.9, 0.98), eps=1e-9",
            ),
            *_errors("Adam"),
            *_defaults("Adam", ["lr", "betas", "eps", "weight_decay"]),
            "!torch.optim.Adam([x(3)], betas=(1.0, 0.9))",
            "a = x(3); o = torch.optim.Adam([a]); (a * 0).sum().backward(); o.step(); a",
            "a = x.double(3); o = torch.optim.Adam([a]); (a * a).sum().backward(); o.step(); a",
        ]
    ),
    "AdamW": "\n".join(
        [
            *_steps(
                "AdamW",
                "lr=0.1",
                "lr=0.1, weight_decay=0.3",
                "lr=0.1, betas=(0.9, 0.95), weight_decay=0.1",
            ),
            *_errors("AdamW"),
            *_defaults("AdamW", ["lr", "betas", "eps", "weight_decay"]),
            "a = x(3); o = torch.optim.AdamW([a]); o.step(); a",
        ]
    ),
    "optim.groups": f"""
        {_START}o = torch.optim.AdamW([{{'params': [l.weight], 'weight_decay': 0.5}}, \
{{'params': [l.bias], 'weight_decay': 0.0}}], lr=0.1, betas=(0.9, 0.95)); train(o, 5); l.weight, l.bias
        {_START}o = torch.optim.SGD([{{'params': l.weight, 'lr': 0.5}}, {{'params': l.bias}}], lr=0.1); \
train(o, 3); l.weight, l.bias
        {_START}o = torch.optim.SGD([l.weight], lr=0.1); o.add_param_group({{'params': [l.bias], 'lr': 1.0}}); \
train(o, 3); l.weight, l.bias
        {_START}o = torch.optim.Adam(l.parameters(), lr=0.1); train(o, 2); \
o.param_groups[0]['lr'] = 0.01; train(o, 2); l.weight
        o = torch.optim.SGD([x(2)], lr=0.1); [g['lr'] for g in o.param_groups], len(o.param_groups)
        a = x(2); o = torch.optim.SGD([a], lr=0.1); o.param_groups[0]['params'][0] is a
        o = torch.optim.SGD(iter([x(2), x(3)]), lr=0.1); len(o.param_groups[0]['params'])
        l = nn.Linear(2, 2); o = torch.optim.Adam(filter(lambda p: p.requires_grad, l.parameters()), \
lr=0.1); len(o.param_groups[0]['params'])
        !a = x(2); torch.optim.SGD([{{'params': [a]}}, {{'params': [a]}}], lr=0.1)
        """,
    "optim.zero_grad": """
        a = x(2); o = torch.optim.SGD([a], lr=0.1); a.sum().backward(); o.zero_grad(); a.grad
        a = x(2); o = torch.optim.SGD([a], lr=0.1); a.sum().backward(); o.zero_grad(set_to_none=False); a.grad
        a = x(2); o = torch.optim.SGD([a], lr=0.1); a.sum().backward(); o.zero_grad(set_to_none=True); a.grad
        l = m(nn.Linear(2, 2)); l(x(1, 2)).sum().backward(); l.zero_grad(); l.weight.grad
        l = m(nn.Linear(2, 2)); l(x(1, 2)).sum().backward(); l.zero_grad(set_to_none=False); l.weight.grad
        """,
    "optim.state_dict": "\n".join(
        f"{_START}o = torch.optim.{o}; train(o, 3); {check}"
        for o in (
            "SGD(l.parameters(), 0.1, momentum=0.9)",
            "Adam(l.parameters(), 0.1)",
            "AdamW(l.parameters(), 0.1)",
        )
        for check in (
            "list(o.state_dict())",
            "o.state_dict()['state']",
            "o.state_dict()['param_groups'][0]['params'], o.state_dict()['param_groups'][0]['lr']",
            "import copy; s = copy.deepcopy(o.state_dict()); k = torch.optim."
            + o
            + "; k.load_state_dict(s); train(k, 3); l.weight",
            "o.state[l.weight].keys()",
        )
    )
    + "\n!o = torch.optim.SGD([x(2)], 0.1); o.load_state_dict(torch.optim.SGD([x(2), x(2)], 0.1).state_dict())",
    "LambdaLR": "\n".join(
        _schedule(
            "LambdaLR",
            "lambda e: 0.9 ** e",
            "lr_lambda=lambda e: min((e + 1) ** -0.5, (e + 1) * 4 ** -1.5)",
            "[lambda e: 0.5 ** e] * len(o.param_groups)",
            "lambda e: 1 / (e + 1), last_epoch=-1",
        )
    ),
    "StepLR": "\n".join(_schedule("StepLR", "step_size=3, gamma=0.5", "2", "1, 0.95")),
    "CosineAnnealingLR": "\n".join(
        _schedule("CosineAnnealingLR", "T_max=12", "5, eta_min=0.01", "12, 0.001")
    ),
    "OneCycleLR": "\n".join(
        _schedule(
            "OneCycleLR",
            "max_lr=0.5, total_steps=20",
            "0.5, epochs=4, steps_per_epoch=5",
            "0.5, total_steps=20, pct_start=0.5, anneal_strategy='linear'",
            "0.5, total_steps=20, cycle_momentum=False, div_factor=10, final_div_factor=100",
            "0.5, total_steps=20, three_phase=True",
        )
    )
    + "\n!o = torch.optim.SGD([x(2)], 0.1, momentum=0.9); torch.optim.lr_scheduler.OneCycleLR(o, 0.5)"
    + "\n!o = torch.optim.SGD([x(2)], 0.1, momentum=0.9); "
    "s = torch.optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=2); [s.step() for _ in range(5)]",
    "RMSprop": "\n".join(
        [
            *_steps(
                "RMSprop",
                "lr=0.1",
                "alpha=0.9, eps=1e-3",
                "weight_decay=0.1, momentum=0.9",
                "lr=0.1, momentum=0.5, centered=True",
                "centered=True, weight_decay=0.01",
            ),
            *_errors("RMSprop"),
            *_defaults("RMSprop", "('lr', 'alpha', 'eps', 'weight_decay', 'momentum', 'centered')"),
            "!torch.optim.RMSprop([x(3)], alpha=-1.0)",
        ]
    ),
    "Adagrad": "\n".join(
        [
            *_steps(
                "Adagrad",
                "lr=0.1",
                "lr=0.1, lr_decay=0.1",
                "weight_decay=0.1",
                "initial_accumulator_value=0.5, eps=1e-3",
            ),
            *_errors("Adagrad"),
            *_defaults("Adagrad", "('lr', 'lr_decay', 'eps', 'weight_decay')"),
            "!torch.optim.Adagrad([x(3)], lr_decay=-1.0)",
        ]
    ),
    "amsgrad": "\n".join(
        line
        for name in ("Adam", "AdamW")
        for line in _steps(name, "lr=0.1, amsgrad=True", "betas=(0.5, 0.6), amsgrad=True")
    ),
    "ExponentialLR": "\n".join(_schedule("ExponentialLR", "0.7", "gamma=1.1")),
    "MultiStepLR": "\n".join(_schedule("MultiStepLR", "[2, 5], gamma=0.3", "[2, 2, 6]", "[]")),
    "LinearLR": "\n".join(
        [
            *_schedule("LinearLR", "", "start_factor=0.1, end_factor=0.8, total_iters=4"),
            "!torch.optim.lr_scheduler.LinearLR(torch.optim.SGD([x(2)], lr=1.0), start_factor=0.0)",
            "!torch.optim.lr_scheduler.LinearLR(torch.optim.SGD([x(2)], lr=1.0), end_factor=1.5)",
        ]
    ),
    "LRScheduler": """
        S = type('S', (torch.optim.lr_scheduler._LRScheduler,), {'get_lr': lambda s: [b / (1 + s.last_epoch) for b in s.base_lrs]}); o = torch.optim.SGD([x(2)], lr=0.1); s = S(o); [(o.step(), s.step(), s.get_last_lr()[0])[-1] for _ in range(4)]
        """,
}
