"""What is said of a training: English, then Chinese."""

TEXT = {
    "same": ("No series differs by more than {share} in {steps} steps.", "{steps} 步内各序列相差均不超过 {share}。"),
    "parted": ("They part at step {step}: the first value that differs by more than {share}.",
                        "从第 {step} 步开始分歧：首个相差超过 {share} 的值。"),
    "series": ("series", "序列"),
    "steps": ("steps", "步数"),
    "first": ("first that differs", "首个差异步"),
    "base": ("base", "基准"),
    "head": ("head", "对比"),
}  # fmt: skip
