"""One step of TRL's `GKDTrainer` for each line of its input.

Is started by gkd_step.py, with a Python that has trl.
"""

import sys
import tempfile
import time

import datasets
import tokenizers
import torch
import transformers
from trl.experimental.gkd import GKDConfig
from trl.experimental.gkd import GKDTrainer


def gpt2(layers, width, heads, length, vocabulary):
    config = transformers.GPT2Config(
        vocab_size=vocabulary,
        n_positions=length,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        bos_token_id=0,
        eos_token_id=None,
    )
    return transformers.GPT2LMHeadModel(config)


def tokenizer(vocabulary):
    words = {f"w{index}": index for index in range(vocabulary)}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(
            tokenizers.models.WordLevel(words, unk_token="w0")
        ),
        pad_token="w0",
        eos_token="w0",
    )


class Turns(transformers.TrainerCallback):
    """Waits for a line before each step and answers with its seconds."""

    def on_step_begin(self, args, state, control, **kwargs):
        sys.stdin.readline()
        self._begin = time.perf_counter(), time.process_time()

    def on_step_end(self, args, state, control, **kwargs):
        wall, cpu = self._begin
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print("\nseconds", wall, cpu, flush=True)


def main():
    sizes = map(int, sys.argv[1:])
    *models, heads, rows, prompt, completion, vocabulary, steps = sizes
    student, teacher = (
        gpt2(*models[i : i + 2], heads, prompt + completion, vocabulary)
        for i in (0, 2)
    )
    shape = rows * steps, prompt + completion
    token_ids = torch.randint(1, vocabulary, shape)

    def collate(examples):
        found = torch.stack([torch.tensor(e["token_ids"]) for e in examples])
        # The trainer divides by the number of these labels, generated or not.
        labels = found.clone()
        labels[:, :prompt] = -100
        return {
            "input_ids": found,
            "attention_mask": torch.ones_like(found),
            "labels": labels,
            "prompts": found[:, :prompt],
            "prompt_attention_mask": torch.ones_like(found[:, :prompt]),
        }

    with tempfile.TemporaryDirectory() as folder:
        trainer = GKDTrainer(
            model=student,
            teacher_model=teacher,
            args=GKDConfig(
                output_dir=folder,
                lmbda=1.0,
                max_new_tokens=completion,
                per_device_train_batch_size=rows,
                gradient_checkpointing=False,
                max_steps=steps,
                use_cpu=True,
                bf16=False,
                report_to=[],
                disable_tqdm=True,
                save_strategy="no",
            ),
            data_collator=collate,
            processing_class=tokenizer(vocabulary),
            train_dataset=datasets.Dataset.from_dict(
                {"token_ids": token_ids.tolist()}
            ),
            callbacks=[Turns()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
