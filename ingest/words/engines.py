"""What is said of loads on a cluster; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "engine_is_local_or_ray": (
        "an engine is local, ray or ray://HEAD, not {name}",
        "engine 应为 local、ray 或 ray://HEAD，而不是 {name}",
    ),
    "ray_is_not_installed": (
        "loading on a cluster needs Ray: pip install 'npulens[ray]'",
        "在集群上加载需要 Ray：pip install 'npulens[ray]'",
    ),
    "no_cluster_answers": ("no Ray cluster answers there: {error}", "该地址没有可用的 Ray 集群：{error}"),
    "cluster_has_no_node_left": (
        "the cluster has no node left that could work, so nothing was stored",
        "集群中已没有可用节点，因此没有写入任何内容",
    ),
    "cluster_lost_its_work": (
        "the cluster lost a part of the load for good, so nothing was stored: {error}",
        "集群丢失了部分加载任务且无法恢复，因此没有写入任何内容：{error}",
    ),
    "node_has_another_version": (
        "node {host} has npulens {found} (version/schema), not {wanted} as here",
        "节点 {host} 上的 npulens 为 {found}（版本/schema），与本机的 {wanted} 不同",
    ),
    "node_does_not_see": (
        "node {host} does not see it: the capture and the store must have the same path on every node",
        "节点 {host} 无法访问：采集数据与 存储在所有节点上必须路径相同",
    ),
}
