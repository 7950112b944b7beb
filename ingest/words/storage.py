"""What is said of runs in object storage; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "store_section_holds": ("{file}: [store] holds {known}, each a text", "{file}：[store] 可包含 {known}，值均为文本"),
    "store_key_is_wrong": ("{file}: store.{key}: {why}", "{file}：store.{key}：{why}"),
    "store_is_a_directory_or_s3": (
        "a store is a directory or s3://bucket/prefix",
        "存储应为目录或 s3://bucket/prefix",
    ),
    "object_storage_needs_a_package": (
        "object storage needs the package obstore: pip install 'npulens[s3]'",
        "使用对象存储需要 obstore 包：pip install 'npulens[s3]'",
    ),
    "there_is_no_such_bucket": ("the storage has no such bucket", "对象存储中没有这个桶"),
    "storage_refuses_the_keys": (
        "the storage refuses these keys: see AWS_ACCESS_KEY_ID and what they may do",
        "对象存储拒绝了访问密钥：请检查 AWS_ACCESS_KEY_ID 及其权限",
    ),
    "storage_patience_is_no_number": (
        "NPULENS_STORAGE_PATIENCE is a number of seconds, not {text}",
        "NPULENS_STORAGE_PATIENCE 应为秒数，而不是 {text}",
    ),
    "storage_answers_with_status": (
        "the storage answers with status {status}, also when asked again for {n} s; nothing was changed there",
        "对象存储返回状态 {status}，重试 {n} 秒后仍然如此；存储内容没有改变",
    ),
    "storage_is_too_slow": (
        "the storage does not answer in time, also when asked again for {n} s",
        "对象存储响应超时，重试 {n} 秒后仍然如此",
    ),
    "storage_cannot_be_asked": ("the storage cannot be reached: {error}", "无法访问对象存储：{error}"),
    "object_is_damaged_in_storage": (
        "what the storage holds is damaged: it is not what was put there",
        "对象存储中的文件已损坏：与写入时的内容不一致",
    ),
    "file_of_run_is_missing_in_storage": (
        "a file of the run is missing in the storage: load the capture again",
        "对象存储中缺少该运行的文件：请重新加载",
    ),
    "run_is_larger_than_its_cache": (
        "the run has {size}, more than copies of runs in storage may take here ({most}): raise NPULENS_CACHE_SIZE",
        "该运行大小为 {size}，超过本机缓存上限（{most}）：请调大 NPULENS_CACHE_SIZE",
    ),
}
