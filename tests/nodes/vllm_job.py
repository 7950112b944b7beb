"""vLLM with a small model whose weights are drawn: its engine and its worker are processes of their own.

python vllm_job.py DIR     writes the model's description there
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from vllm import LLM, SamplingParams

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip


def main(place: Path) -> None:
    """Answers four prompts, and says the sum of the tokens of each."""
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(MODEL))
    engine = LLM(
        model=str(place), load_format="dummy", skip_tokenizer_init=True, enforce_eager=True, max_model_len=512,
        gpu_memory_utilization=0.2, seed=7,
    )  # fmt: skip
    wanted = SamplingParams(max_tokens=40, temperature=0, ignore_eos=True, detokenize=False)
    answers = engine.generate([{"prompt_token_ids": [5, 6, 7 + i]} for i in range(4)], wanted)
    print("rank 0 of 1:", [sum(each.outputs[0].token_ids) for each in answers], flush=True)


if __name__ == "__main__":
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    main(Path(sys.argv[1]))
