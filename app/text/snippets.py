"""What a fix looks like in code: before and after, by cause. Code is the same in both languages."""

from __future__ import annotations

from dataclasses import dataclass

from npulens.analysis.finding import Finding


@dataclass(frozen=True)
class Snippet:
    """A few lines as they often are, and as they should be."""

    before: str
    after: str


#: cause -> its snippet; behind it the kind of conversion, or which sentences of its detector the snippet goes with.
#: A cause that no line of code can mend has none; sentences of another cause that none can mend have None.
SNIPPETS: dict[str, Snippet | None] = {
    "host_late": Snippet(
        "for step, batch in enumerate(loader):\n    loss = train_step(batch)\n    log(metrics(model))",
        "for step, batch in enumerate(loader):\n    loss = train_step(batch)\n"
        "    if step % 100 == 0:\n        log(metrics(model))",
    ),
    "host_late scattered": Snippet(
        "for batch in loader:\n    loss = train_step(batch)",
        "train_step = torch.compile(train_step, mode='reduce-overhead')   # torchair on Ascend\n"
        "for batch in loader:\n    loss = train_step(batch)",
    ),
    "host_late compiled": Snippet(
        "model = torch.compile(model)",
        "model = torch.compile(model, mode='reduce-overhead')   # records a graph",
    ),
    "host_late entry": Snippet(
        "for batch in loader:\n    y = compiled(batch)           # checks its guards each time",
        "with torch.cuda.graph(graph):   # torch.npu.graph on Ascend\n    y = compiled(kept)\n"
        "for batch in loader:\n    kept.copy_(batch)\n    graph.replay()",
    ),
    "host_late draws": Snippet(
        "noise = torch.randn(1000, 1000).to(device)", "noise = torch.randn(1000, 1000, device=device)"
    ),
    "host_late stalls": Snippet(
        "loader = DataLoader(data, num_workers=8)",
        "os.sched_setaffinity(0, range(8))   # cores of its own\n"
        "loader = DataLoader(data, num_workers=8,\n"
        "                    worker_init_fn=lambda _: os.sched_setaffinity(0, range(8, 16)))",
    ),
    "host_late warming": Snippet("schedule(wait=0, warmup=0, active=5)", "schedule(wait=5, warmup=1, active=5)"),
    "sync_stall": Snippet(
        "total += loss.item()\nif grad.isnan().any():\n    grad.zero_()",
        "total += loss.detach()          # read total.item() every 100 steps\n"
        "grad = torch.where(grad.isnan(), 0, grad)",
    ),
    "launch_overhead": Snippet(
        "optimizer = torch.optim.AdamW(parameters, foreach=False)",
        "optimizer = torch.optim.AdamW(parameters, foreach=True)\nmodel = torch.compile(model)",
    ),
    "launch_overhead calling": Snippet(
        "y = torch.stack([layer(row) for row in x])",
        "y = layer(x)                        # one call for all rows\nmodel = torch.compile(model)",
    ),
    "unfused": Snippet(
        "y = torch.nn.functional.silu(gate) * up",
        "@torch.compile\ndef gated(gate, up):\n    return torch.nn.functional.silu(gate) * up\n\ny = gated(gate, up)",
    ),
    "copy_exposed": Snippet(
        "loader = DataLoader(data, batch_size=32)\nx = batch.to(device)",
        "loader = DataLoader(data, batch_size=32, pin_memory=True)\nx = batch.to(device, non_blocking=True)",
    ),
    "copy_exposed pinned": Snippet(
        "for batch in loader:\n    train_step(batch.to(device, non_blocking=True))",
        "side = torch.cuda.Stream()          # torch.npu.Stream() on Ascend\nfor batch in loader:\n"
        "    with torch.cuda.stream(side):\n        following = batch.to(device, non_blocking=True)\n"
        "    train_step(current)             # computes meanwhile\n"
        "    torch.cuda.current_stream().wait_stream(side)\n    current = following",
    ),
    "slow_tail first": Snippet("schedule(wait=0, warmup=0, active=5)", "schedule(wait=5, warmup=1, active=5)"),
    "dataloader epoch": Snippet(
        "loader = DataLoader(data, batch_size=32, num_workers=8)",
        "loader = DataLoader(data, batch_size=32, num_workers=8, persistent_workers=True)",
    ),
    "dataloader": Snippet(
        "loader = DataLoader(data, batch_size=32)",
        "loader = DataLoader(data, batch_size=32, num_workers=8, prefetch_factor=4,\n"
        "                    persistent_workers=True, pin_memory=True)",
    ),
    "gc": Snippet(
        "for batch in loader:\n    train_step(batch)",
        "gc.collect()\ngc.freeze()\ngc.disable()\nfor step, batch in enumerate(loader):\n    train_step(batch)\n"
        "    if step % 500 == 0:         # the same step on every rank\n        gc.collect()",
    ),
    "compile": Snippet(
        "model = torch.compile(model)\nout = model(batch)                # a new length compiles again",
        "model = torch.compile(model)\ntorch._dynamo.mark_dynamic(batch, 1)\nout = model(batch)",
    ),
    "memory_alloc uncached": Snippet(
        "# environment: PYTORCH_NO_NPU_MEMORY_CACHING=1  (PYTORCH_NO_CUDA_MEMORY_CACHING)\ntrain()",
        "# environment: without it\ntrain()",
    ),
    "memory_alloc grows": Snippet(
        "with torch.profiler.profile():\n    train_step(batch)            # the first of the job",
        "with torch.profiler.profile(schedule=torch.profiler.schedule(wait=5, warmup=1, active=5)) as prof:\n"
        "    for batch in loader:\n        train_step(batch)\n        prof.step()",
    ),
    "memory_alloc": Snippet(
        "for batch in loader:\n    train_step(batch)\n    torch.cuda.empty_cache()    # torch.npu.empty_cache()",
        "# PYTORCH_NPU_ALLOC_CONF=expandable_segments:True  (PYTORCH_CUDA_ALLOC_CONF)\n"
        "for batch in loader:\n    train_step(batch)",
    ),
    "aicpu": Snippet(
        "mask = torch.arange(n, device=device)             # int64\nscale = torch.tensor(s, dtype=torch.float64)",
        "mask = torch.arange(n, device=device, dtype=torch.int32)\nscale = torch.tensor(s, dtype=torch.float32)",
    ),
    "layout_conversion TransData": Snippet(
        "model = model.to('npu')\ny = model(batch.to('npu'))",
        "torch.npu.config.allow_internal_format = False   # before the model is made\n"
        "model = model.to('npu')\ny = model(batch.to('npu'))",
    ),
    "layout_conversion NCHW/NHWC": Snippet(
        "model = model.to(device)\ny = model(batch.to(device))",
        "model = model.to(device, memory_format=torch.channels_last)\n"
        "y = model(batch.to(device, memory_format=torch.channels_last))",
    ),
    "layout_conversion Transpose": Snippet(
        "k = k.transpose(-2, -1).contiguous()\nscores = torch.matmul(q, k)",
        "scores = torch.matmul(q, k.transpose(-2, -1))   # reads it as it lies",
    ),
    "layout_conversion Contiguous": Snippet(
        "for layer in layers:\n    out.append(layer(x.transpose(1, 2).contiguous()))",
        "x = x.transpose(1, 2).contiguous()   # once\nfor layer in layers:\n    out.append(layer(x))",
    ),
    "layout_conversion Cast": Snippet(
        "x = x.float()\ny = layer(x).to(torch.bfloat16)",
        "with torch.autocast(device, dtype=torch.bfloat16):  # whole blocks\n    y = layer(x)",
    ),
    "full_precision": Snippet(
        "out = model(batch)                 # float32",
        "with torch.autocast(device, dtype=torch.bfloat16):\n    out = model(batch)",
    ),
    "idle_cores": Snippet(
        "for x, w in zip(xs, ws):\n    out.append(x @ w)",
        "out = torch.bmm(torch.stack(xs), torch.stack(ws))",
    ),
    "low_efficiency": Snippet(
        "scores = (q @ k.transpose(-2, -1) / d ** 0.5).softmax(-1)\nout = scores @ v",
        "out = torch.nn.functional.scaled_dot_product_attention(q, k, v)",
    ),
    "low_efficiency fallback": Snippet(
        "print(torch.backends.mkldnn.is_available())   # False: this build has no oneDNN\ny = model(x)",
        "print(torch.backends.mkldnn.is_available())   # True: another build\n"
        "y = model.to(memory_format=torch.channels_last)(x.float().to(memory_format=torch.channels_last))",
    ),
    "random_numbers": Snippet(
        "for _ in range(steps):\n    x = torch.randn(batch, size)\n    step(x)",
        "x = torch.randn(batch, size)\nfor _ in range(steps):\n    step(x)",
    ),
    "device_copies": Snippet(
        "buffer[i] = x + y",
        "torch.add(x, y, out=buffer[i])       # written where it is needed",
    ),
    "shape_churn": Snippet(
        "batch = pad_to_longest(samples)",
        "length = next(n for n in (512, 1024, 2048, 4096) if n >= longest(samples))\nbatch = pad_to(samples, length)",
    ),
    "first_use": Snippet(
        "schedule(wait=0, warmup=0, active=5)",
        "schedule(wait=5, warmup=1, active=5)",
    ),
    "comm_exposed": Snippet(
        "loss.backward()\nfor p in model.parameters():\n    dist.all_reduce(p.grad)",
        "model = DistributedDataParallel(model, bucket_cap_mb=25)\nloss.backward()       # reduces while it computes",
    ),
    "small_packets": Snippet(
        "for tensor in tensors:\n    dist.all_reduce(tensor)",
        "flat = torch.cat([tensor.flatten() for tensor in tensors])\ndist.all_reduce(flat)",
    ),
    "pipeline_bubble": Snippet(
        "schedule = ScheduleGPipe(stage, n_microbatches=4)",
        "schedule = Schedule1F1B(stage, n_microbatches=16)",
    ),
    "pipeline_bubble in_turn": Snippet(
        'model = AutoModel.from_pretrained(name, device_map="auto")   # layers on devices in turn',
        "model = DistributedDataParallel(AutoModel.from_pretrained(name).to(rank))   # torchrun --nproc-per-node=2",
    ),
    "imbalance slower": None,
    "imbalance": Snippet(
        "sampler = DistributedSampler(data)          # equal numbers of samples",
        "batches = pack_by_tokens(data, tokens_per_rank)   # equal numbers of tokens",
    ),
    "memory_pressure": Snippet(
        "losses.append(loss)",
        "losses.append(loss.detach())",
    ),
    "profiler_overhead": Snippet(
        "profile(with_stack=True, record_shapes=True, profile_memory=True)",
        "profile(with_stack=False, record_shapes=False, profile_memory=False)",
    ),
}


#: Pieces of a step in graphs of their own, and one graph of all.
_WHOLE = Snippet(
    "first.replay()\nhidden = attention(q, k, v)     # launched beside the graphs\nsecond.replay()",
    "with torch.cuda.graph(whole):   # torch.npu.graph on Ascend\n    step(*kept)\nwhole.replay()",
)


def snippet(finding: Finding) -> Snippet | None:
    """What mends it in code."""
    kind = finding.numbers.get("conversion", finding.text)
    if str(kind).endswith(" graphed") or (finding.cause, kind) == ("launch_overhead", "edges"):
        return _WHOLE
    return SNIPPETS.get(f"{finding.cause} {kind}", SNIPPETS.get(finding.cause))
