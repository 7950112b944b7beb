"""What is said of an archive that is no evidence."""

TEXT = {
    "evidence_is_no_zip": (
        "this is no archive of npulens evidence run: a zip file was expected",
        "这不是 npulens evidence run 生成的归档：应为 zip 文件",
    ),
    "evidence_has_no_manifest": (
        "this is no archive of npulens evidence run: it has no {name} that can be read",
        "这不是 npulens evidence run 生成的归档：没有可读取的 {name}",
    ),
    "evidence_of_other_version": (
        "this evidence was written in version {found} of its format, and {known} is read here",
        "该证据归档的格式版本为 {found}，当前只能读取版本 {known}",
    ),
}
