"""What records something that is missing, where it is more than a name and its value; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "setting_of_torch_npu": ("torch_npu.profiler: {setting}", "torch_npu.profiler：{setting}"),
    "setting_mark_steps": ("prof.step() after each step", "每步之后调用 prof.step()"),
    "setting_more_steps": ("schedule(active=5 or more)", "schedule(active=5)，或更多步"),
    "setting_profile_of_more_steps": ("a profile of more steps", "采集更多步"),
    "setting_start_and_later": (
        "two profiles of the same job: one of its start and one after some minutes",
        "对同一作业采集两次：启动时一次，运行几分钟后再一次",
    ),
    "setting_whole_export": ("the whole export, with trace_view.json", "完整的导出目录，包含 trace_view.json"),
    "setting_every_rank": ("a profile of every rank", "采集所有卡"),
    "setting_every_rank_same_steps": ("a profile of every rank over the same steps", "在相同的步上采集所有卡"),
    "setting_expert_ranks": (
        "a profile of every rank of the expert parallel group",
        "采集专家并行域内的所有卡",
    ),
    "setting_rank_of_each_stage": (
        "a profile of one rank of each stage, over the same steps",
        "在相同的步上，每个流水线阶段各采集一张卡",
    ),
    "setting_more_ranks": (
        "a profile of more ranks (profiler_level=Level1)",
        "采集更多卡（profiler_level=Level1）",
    ),
    "setting_larger_collectives": (
        "a step with larger collectives, e.g. a larger bucket_cap_mb",
        "采集通信量更大的一步，例如增大 bucket_cap_mb",
    ),
    "setting_data_loader": (
        "torch.utils.data.DataLoader, or torch.profiler.record_function('DataLoader.__next__') around your own",
        "使用 torch.utils.data.DataLoader，或用 torch.profiler.record_function('DataLoader.__next__') 包住自己的加载器",
    ),
    "setting_device": ("torch.profiler on the device", "在设备上使用 torch.profiler"),
    "setting_entry_of_device": ("an entry in device_facts.toml", "在 device_facts.toml 中添加该设备"),
    "setting_names_device": (
        "what names the device or counts its cores: {files}", "能说明设备型号或核数的文件：{files}"
    ),
    "setting_flops_of_device": (
        "flops of the device in analysis/device/device_facts.toml",
        "在 analysis/device/device_facts.toml 中填写该设备的 flops",
    ),
    "setting_peaks_of_device": (
        "flops and memory_bytes_per_s of the device in analysis/device/device_facts.toml",
        "在 analysis/device/device_facts.toml 中填写该设备的 flops 与 memory_bytes_per_s",
    ),
    "setting_name_of_work": (
        "a name in analysis/work/families.toml",
        "在 analysis/work/families.toml 中添加算子名",
    ),
    "setting_line_of_library": (
        "a line for the library in comm_facts.toml",
        "在 comm_facts.toml 中为该通信库添加一行",
    ),
    "setting_later_torch_npu": (
        "torch_npu 2.1.0.post8 or later (profiler_metadata.json)",
        "使用 torch_npu 2.1.0.post8 或更高版本（profiler_metadata.json）",
    ),
}
