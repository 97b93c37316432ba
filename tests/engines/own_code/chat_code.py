"""Modelling code that a checkpoint brings along: it chats about tiles of images, as InternVL2 does."""

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PretrainedConfig, PreTrainedModel


class ChattingConfig(PretrainedConfig):
    model_type = "internvl_chat"

    def __init__(self, llm_config=None, vision_config=None, **rest):
        super().__init__(**rest)
        self.llm_config, self.vision_config = llm_config or {}, vision_config or {}


class Conversation:
    """A system message, then turns."""

    roles = ("<|im_start|>user\n", "<|im_start|>assistant\n")
    sep = "<|im_end|>\n"

    def __init__(self, system_message):
        self.system_message, self.messages = system_message, []

    def append_message(self, role, message):
        self.messages.append((role, message))

    def get_prompt(self):
        turns = [role + (message + self.sep if message is not None else "") for role, message in self.messages]
        return "<|im_start|>system\n" + self.system_message + self.sep + "".join(turns)


class NoGenerate(PreTrainedModel):
    """A language model from before transformers 4.50: its code does not ask for `generate`."""

    config_class = LlamaConfig

    def __init__(self, config):
        super().__init__(config)
        self.inner = LlamaForCausalLM(config)

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def forward(self, inputs_embeds, attention_mask=None, past_key_values=None, use_cache=None, return_dict=True):
        return self.inner(inputs_embeds=inputs_embeds, attention_mask=attention_mask, use_cache=False)


class Chatting(PreTrainedModel):
    config_class = ChattingConfig

    def __init__(self, config):
        super().__init__(config)  # and no post_init: code of that time does without
        settings, vision = dict(config.llm_config), config.vision_config
        known = settings.pop("model_type") == "llama"
        text = LlamaConfig(**settings, bos_token_id=1, eos_token_id=2, pad_token_id=0)
        self.language_model = (LlamaForCausalLM if known else NoGenerate)(text)
        self.see = nn.Conv2d(3, vision["hidden_size"], vision["patch_size"], vision["patch_size"])
        self.pool = nn.AvgPool2d(2)
        self.mlp1 = nn.Linear(vision["hidden_size"], text.hidden_size)
        self.register_buffer("loudness", torch.linspace(0.5, 2.0, vision["hidden_size"]), persistent=False)
        side = config.force_image_size // vision["patch_size"]
        self.num_image_token = int(side**2 * config.downsample_ratio**2)
        self.img_context_token_id = None
        self.conv_template = Conversation("You answer in short.")
        self.system_message = self.conv_template.system_message

    def extract_feature(self, pixel_values):
        seen = self.pool(torch.tanh(self.see(pixel_values))).flatten(2).transpose(1, 2)
        return self.mlp1(seen * self.loudness)

    def _embedded(self, pixel_values, input_ids):
        embedded = self.language_model.get_input_embeddings()(input_ids).clone()
        embedded[input_ids == self.img_context_token_id] = self.extract_feature(pixel_values).flatten(0, 1)
        return embedded

    def forward(
        self,
        pixel_values,
        input_ids=None,
        attention_mask=None,
        image_flags=None,
        past_key_values=None,
        use_cache=None,
        return_dict=None,
    ):
        assert int(image_flags.sum()) == len(pixel_values)
        return self.language_model(
            inputs_embeds=self._embedded(pixel_values, input_ids),
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
            return_dict=return_dict,
        )

    @torch.no_grad()
    def generate(self, pixel_values=None, input_ids=None, attention_mask=None, **options):
        words = self.language_model.get_input_embeddings()
        embedded = words(input_ids) if pixel_values is None else self._embedded(pixel_values, input_ids)
        return self.language_model.generate(inputs_embeds=embedded, attention_mask=attention_mask, **options)

    def chat(self, tokenizer, pixel_values, question, generation_config):
        self.img_context_token_id = tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")
        talk = Conversation(self.system_message)
        talk.append_message(talk.roles[0], question if pixel_values is None else "<image>\n" + question)
        talk.append_message(talk.roles[1], None)
        prompt = talk.get_prompt()
        if pixel_values is not None:
            marks = "<IMG_CONTEXT>" * self.num_image_token * len(pixel_values)
            prompt = prompt.replace("<image>", f"<img>{marks}</img>", 1)
        inputs = tokenizer(prompt, return_tensors="pt")
        end = tokenizer.convert_tokens_to_ids(talk.sep.strip())
        made = self.generate(
            pixel_values, inputs["input_ids"], inputs["attention_mask"], eos_token_id=end, **generation_config
        )
        return tokenizer.batch_decode(made, skip_special_tokens=True)[0].split(talk.sep.strip())[0].strip()
