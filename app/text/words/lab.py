"""What the laboratory says: what was heard, what a rewrite is worth, and why one is not tried or not believed."""

TEXT = {
    "heard": ("{place}: {module}, {n} calls, captured by {engine}", "{place}：{module}，{n} 次调用，由 {engine} 捕获"),
    "heard.one": ("{place}: {module}, 1 call, captured by {engine}", "{place}：{module}，1 次调用，由 {engine} 捕获"),
    "not_heard": ("{module}, {n} calls: not captured. {why}", "{module}，{n} 次调用：未捕获。{why}"),
    "not_heard.one": ("{module}, 1 call: not captured. {why}", "{module}，1 次调用：未捕获。{why}"),
    "nothing_heard": (
        "No module was heard. The process that computes has to end by itself, or --calls N writes after N calls.",
        "没有听到任何模块。执行计算的进程需要正常结束；若不会结束，可用 --calls N 在 N 次调用后写出。",
    ),
    "next": ("Try rewrites on it: npulens lab {place}", "尝试改写：npulens lab {place}"),
    "replayed": (
        "the captured program gives what the job got (error {error})",
        "捕获的程序与作业所得结果一致（误差 {error}）",
    ),
    "not_replayed_random": (
        "it drops out at random, so it was not compared with what the job got",
        "含随机 dropout，未与作业所得结果比较",
    ),
    "not_replayed_changed": (
        "its weights changed later, so it was not compared with what the job got",
        "权重之后有变化，未与作业所得结果比较",
    ),
    "head": (
        "{module} from {place}, captured by {engine}, {mode}; on {backend} ({device})",
        "{module}（{place}），由 {engine} 捕获，{mode}；运行在 {backend}（{device}）上",
    ),
    "mode_eval": ("eval", "推理模式"),
    "mode_training": ("training", "训练模式"),
    "shapes": (
        "{n} calls in the job, {shapes} kinds of shapes; the original is {error} of its result away from float64",
        "作业中 {n} 次调用，{shapes} 种形状；原程序与 float64 相差其结果的 {error}",
    ),
    "failed": ("Nothing can be tried: {why}.", "无法尝试：{why}。"),
    "col_rewrite": ("rewrite", "改写"),
    "col_verdict": ("verdict", "结论"),
    "col_time": ("time, 99 % interval", "耗时比，99 % 区间"),
    "col_error": ("error", "误差"),
    "col_allowed": ("allowed", "允许"),
    "col_against": ("to original", "与原程序"),
    "col_peak": ("peak memory", "内存峰值"),
    "col_places": ("places", "处数"),
    "verdict_faster": ("faster", "更快"),
    "verdict_slower": ("slower", "更慢"),
    "verdict_same": ("same", "相同"),
    "verdict_cannot_tell": ("cannot tell", "无法判断"),
    "verdict_refused": ("refused: wrong", "拒绝：结果错误"),
    "verdict_does_not_apply": ("does not apply", "不适用"),
    "columns": (
        "Time is a multiple of the original's. Errors are shares of the result: the largest of all runs against "
        "float64, what rounding allows, and the distance to the original. Peak memory is what one call needs besides "
        "the weights, rewrite / original.",
        "耗时为原程序的倍数。误差为占结果的比例，依次为：所有运行中与 float64 的最大误差、舍入允许的误差、"
        "与原程序的差距。内存峰值为一次调用在权重之外所需，改写 / 原程序。",
    ),
    "precision": (
        "It computes in {dtype} on purpose. The error is of these batches; your own accuracy has to say whether it "
        "may be.",
        "它有意使用 {dtype} 计算。误差仅针对这些 batch；是否可接受须由您自己的精度指标决定。",
    ),
    "left": ("{n} places stay as they are: {why}", "{n} 处保持原样：{why}"),
    "left.one": ("1 place stays as it is: {why}", "1 处保持原样：{why}"),
    "where_captured": ("on the job's own batches", "使用作业自身的 batch"),
    "where_fresh": ("on fresh numbers of the same shapes", "使用相同形状的新数据"),
    "where_reshaped": ("on sizes that the job did not have", "使用作业未出现过的尺寸"),
    "where_redrawn": ("on weights that were drawn anew", "使用重新抽取的权重"),
    "where_timed": ("while it was timed", "计时过程中"),
    "why_wrong": ("{why} ({where})", "{why}（{where}）"),
    "why_loses_dropout": (
        "the original drops out at {before} places, the rewrite at {after}",
        "原程序有 {before} 处 dropout，改写后有 {after} 处",
    ),
    "why_fails": ("it fails: {error}", "运行失败：{error}"),
    "why_crashes": ("it brings its process down, which {ended}", "它使所在进程终止：{ended}"),
    "why_endless": ("it takes more than {limit} s; --limit", "超过 {limit} 秒仍未完成；见 --limit"),
    "why_verbatim": ("{text}", "{text}"),
    "why_not_timed": ("it is right and was not timed", "结果正确，未计时"),
    "why_noisy": (
        "the original, measured against itself, came out different: this machine is not quiet enough",
        "原程序与自身相比也有差异：本机不够安静",
    ),
    "why_wide": (
        "the original, measured against itself, differs as much as this",
        "原程序与自身相比的差异不小于此差异",
    ),
    "why_not_again": ("measured again, it did not come out like that", "再次测量未得到相同结论"),
    "why_small": ("the difference is below 1 %", "差异小于 1 %"),
    "why_more_pairs": ("about {pairs} pairs would tell; --pairs", "约需 {pairs} 对才能判断；见 --pairs"),
    "why_no_graph": (
        "the module was kept whole, so its operators cannot be replaced",
        "模块以整体保存，无法替换其中的算子",
    ),
    "why_gradients": ("the job takes gradients, and the weights would be copied", "作业需要梯度，而此改写会复制权重"),
    "why_written_in_place": ("something is written in place in between", "其间有原地写入"),
    "why_fold_training": (
        "the module is in training: BatchNorm uses the statistics of the batch",
        "模块处于训练模式：BatchNorm 使用 batch 统计量",
    ),
    "why_fold_batch_statistics": ("BatchNorm uses the statistics of the batch", "BatchNorm 使用 batch 统计量"),
    "why_fold_no_statistics": ("BatchNorm has no statistics of its own", "BatchNorm 没有自己的统计量"),
    "why_fold_nothing_before": (
        "what BatchNorm reads is no convolution or linear layer",
        "BatchNorm 的输入不是卷积或线性层",
    ),
    "why_fold_transposed": ("the convolution before it is a transposed one", "其前为转置卷积"),
    "why_fold_read_elsewhere": (
        "somebody else reads what the convolution gives",
        "卷积的结果还有其他使用者",
    ),
    "why_fold_computed_weights": ("the weights are computed in the program", "权重由程序计算得出"),
    "why_fold_shared_weights": ("the weights are shared with another place", "权重与他处共享"),
    "why_fold_channels_elsewhere": (
        "its channels are in another dimension than those of the linear layer",
        "其通道维与线性层的通道维不同",
    ),
    "why_fold_nothing": ("there is no BatchNorm", "没有 BatchNorm"),
    "why_sdpa_nothing": ("there is no attention that is written out", "没有展开书写的 attention"),
    "why_sdpa_dropout": ("dropout between softmax and product is active", "softmax 与乘法之间的 dropout 生效"),
    "why_sdpa_shapes": ("its parts are expanded or reshaped in between", "其间有扩展或变形"),
    "why_sdpa_other_dimension": ("the softmax runs over another dimension", "softmax 作用于其他维度"),
    "why_sdpa_scaled_mask": ("the mask is scaled with the scores", "mask 与分数一同缩放"),
    "why_sdpa_scores": ("something else is done to the scores", "对分数还有其他运算"),
    "why_sdpa_read_elsewhere": ("somebody else reads the scores or the weights", "分数或权重还有其他使用者"),
    "why_sdpa_types": ("query, key and value have different types", "query、key、value 类型不同"),
    "why_no_convolutions": ("there is no 2-D convolution", "没有二维卷积"),
    "why_short_training": (
        "training in {dtype} needs a scaler and master weights, which is another rewrite",
        "以 {dtype} 训练需要缩放器和主权重，不属于此改写",
    ),
    "why_short_already": ("no weight is float32", "没有 float32 权重"),
    "why_merge_nothing": ("no two linear layers read the same activation", "没有两个线性层读取同一激活"),
    "why_merge_unlike": ("they differ in type, or only some have a bias", "类型不同，或仅部分带有 bias"),
    "why_read_elsewhere": ("somebody else reads a part of it", "其中间结果还有其他使用者"),
    "why_formula_types": ("its parts have different types", "各部分类型不同"),
    "why_gelu_nothing": ("there is no GELU or SiLU that is written out", "没有展开书写的 GELU 或 SiLU"),
    "why_gelu_other": ("erf is used in another formula than GELU's", "erf 所在的公式不是 GELU"),
    "why_norms_nothing": (
        "there is no LayerNorm or RMSNorm that is written out",
        "没有展开书写的 LayerNorm 或 RMSNorm",
    ),
    "why_norms_unbiased": ("its variance divides by n - 1", "方差的除数为 n - 1"),
    "why_norms_dimensions": ("it runs over other dimensions than the last ones", "归一化的维度不是末尾几维"),
    "why_norms_shapes": ("its last dimension differs from call to call", "末尾维度随调用变化"),
    "why_norms_release": ("this release of PyTorch has no rms_norm", "当前 PyTorch 版本没有 rms_norm"),
    "why_rotary_nothing": (
        "there is no rotary embedding by halves that is written out",
        "没有展开书写的按半旋转位置编码",
    ),
    "why_rotary_tables": ("its tables are not as wide as what is turned", "其表的宽度与被旋转的张量不同"),
    "why_gated_nothing": ("there is no gated layer", "没有门控层"),
    "why_activation_nothing": (
        "no activation follows a convolution or linear layer",
        "卷积或线性层之后没有激活函数",
    ),
    "why_activation_gradients": (
        "the job takes gradients, which these operators do not know",
        "作业需要梯度，而这些算子不支持求导",
    ),
    "why_activation_type": ("it is neither float32 nor bfloat16", "类型既不是 float32 也不是 bfloat16"),
    "why_activation_device": ("this device has no such operator in PyTorch", "PyTorch 在此设备上没有这样的算子"),
    "why_activation_padding": ("its padding is told in words", "padding 以字符串给出"),
    "why_casts_nothing": ("no conversion leads nowhere", "没有多余的类型转换"),
    "why_casts_round": ("the type in between rounds", "中间类型会舍入"),
    "why_casts_copies": ("the copy is needed: somebody writes to it or gets it", "需要该副本：有写入或作为结果返回"),
    "why_transposes_nothing": ("no transpositions follow each other", "没有连续的转置"),
    "why_transposes_returned": ("what was a copy would leave the program", "原为副本的结果会离开程序"),
    "offers": ("{run} has {n} findings that a rewrite may help with.", "{run} 有 {n} 项发现可尝试改写。"),
    "offers.one": ("{run} has 1 finding that a rewrite may help with.", "{run} 有 1 项发现可尝试改写。"),
    "offers_none": (
        "No finding of {run} names a rewrite. Every rewrite can still be tried on a subject.",
        "{run} 的发现均不对应改写。仍可在捕获的模块上尝试任意改写。",
    ),
    "offer": ("at most {saving}: {title}", "最多 {saving}：{title}"),
    "offer_rewrites": ("rewrites: {rewrites}", "可尝试的改写：{rewrites}"),
    "offer_next": (
        "Hear the module and try them:\n  npulens lab -o subject -- python your_job.py\n"
        "  npulens lab subject --try {rewrites}",
        "捕获模块并尝试：\n  npulens lab -o subject -- python your_job.py\n  npulens lab subject --try {rewrites}",
    ),
    "npu_operators": (
        "What torch_npu has for the same; it was not run:", "torch_npu 中与之对应的算子（未实际运行）：",
    ),
    "list_next": (
        "npulens lab -o DIR -- python serve.py hears a job's modules; npulens lab DIR tries rewrites on one.",
        "npulens lab -o DIR -- python serve.py 捕获作业的模块；npulens lab DIR 对其尝试改写。",
    ),
    "col_predicted": ("predicted", "预测"),
    "not_predicted": ("not predicted", "未预测"),
    "yes": ("yes", "是"),
    "theory_none": ("Not predicted: {why}.", "未预测：{why}。"),
    "theory_work": (
        "Launches {launches} -> {launches_after}, operations {flops} -> {flops_after}, traffic {moved} -> "
        "{moved_after}.",
        "启动 {launches} -> {launches_after} 次，运算 {flops} -> {flops_after}，访存 {moved} -> {moved_after}。",
    ),
    "theory_claimed": (
        "Predicted before it was timed: {mid} times the original's time [{low}, {high}].",
        "计时之前的预测：耗时为原程序的 {mid} 倍 [{low}, {high}]。",
    ),
    "theory_small": (
        "Predicted {mid} [{low}, {high}]: too small to claim, the error is as large as the gain.",
        "预测 {mid} [{low}, {high}]：收益不大于误差，不作断言。",
    ),
    "theory_by_class": (
        "With what classes of operators cost on this machine: {mid}.",
        "按本机各类算子的开销计算：{mid}。",
    ),
    "theory_no_class": ("No class of operators has a price for {names}.", "没有算子类别可为 {names} 定价。"),
    "theory_classes": (
        "Classes of operators were measured on this machine. Priced by the other points of its class, a point of the "
        "grid is off by, at median: {errors}.",
        "各类算子的开销在本机测得。以同类其余测点为某一测点定价，误差中位数为：{errors}。",
    ),
    "why_theory_compiled": (
        "a compiler decides what is left of it, and no list of operators tells that",
        "编译器决定最终的算子，算子列表无法体现",
    ),
    "why_theory_gradients": (
        "the job takes gradients, and calls backwards are not priced",
        "作业需要梯度，反向调用无定价",
    ),
    "why_theory_not_heard": ("no call of it was heard", "没有听到任何算子调用"),
    "why_theory_not_the_same": ("it does not make the same calls every time", "每次运行的调用不尽相同"),
    "why_theory_unpriced": ("{name} has no price", "{name} 没有定价"),
    "why_theory_fails": ("its calls cannot be made alone ({error})", "其调用无法单独执行（{error}）"),
    "ceiling": (
        "{detector} gives back at most {saving} of the step; not measured here.",
        "{detector} 最多可从每步收回 {saving}；此处未测得收益。",
    ),
    "ceiling_measured": (
        "{detector} gives back at most {saving} of the step; of this module's time the rewrite saves {gain}.",
        "{detector} 最多可从每步收回 {saving}；此改写节省本模块耗时的 {gain}。",
    ),
    "ledger_subject": ("subject", "模块"),
    "ledger_rewrite": ("rewrite", "改写"),
    "ledger_predicted": ("predicted time", "预测耗时比"),
    "ledger_claimed": ("claimed", "已断言"),
    "ledger_measured": ("measured, 99 % interval", "实测，99 % 区间"),
    "ledger_verdict": ("verdict", "结论"),
    "ledger_empty": (
        "The ledger {path} has no lines yet. Every trial that is timed adds one: npulens lab DIR --try fold",
        "台账 {path} 尚无记录。每次计时的尝试都会追加一行：npulens lab DIR --try fold",
    ),
    "ledger_score_predicted": (
        "{trials} trials, {predicted} predicted, {claimed} claimed. Of those claimed: {right_sign} with the right "
        "sign, {near_time} whose time and {near_gain} whose gain is within 25 % of the predicted one.",
        "{trials} 次尝试，{predicted} 次有预测，{claimed} 次作出断言。其中：{right_sign} 次方向正确，"
        "{near_time} 次耗时、{near_gain} 次收益与预测相差不超过 25 %。",
    ),
    "ledger_score_by_class": (
        "By classes alone: {predicted} predicted, {claimed} claimed; {right_sign} with the right sign, {near_time} "
        "whose time and {near_gain} whose gain is within 25 %.",
        "仅按类别定价：{predicted} 次有预测，{claimed} 次作出断言；{right_sign} 次方向正确，"
        "{near_time} 次耗时、{near_gain} 次收益相差不超过 25 %。",
    ),
    "ledger_where": ("It lies in {path}.", "台账位于 {path}。"),
    "ledger_lost": ("{n} lines of it cannot be read.", "其中 {n} 行无法读取。"),
    "ledger_lost.one": ("1 line of it cannot be read.", "其中 1 行无法读取。"),
}
