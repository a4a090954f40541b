"""Backends of somebody else's behind `--model-url`: how to try one, and what can be seen.

Any server that speaks OpenAI's interface will do. Three that were made for it:

    vllm serve Qwen/Qwen3-0.6B --port 8000
    python -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --port 8000
    llama-server -m gemma-3-270m-it-Q8_0.gguf --port 8000 --jinja -np 4 -c 16384

    triocollect run -i rows.jsonl -o out.jsonl --model-url http://127.0.0.1:8000/v1 --checkpoint-dir ckpt

(`-c` of llama-server is shared by the `-np` calls that it serves at once.) `--model` says how the model is
called; without it the backend is asked for the first that it serves. `--model-api-key-file` holds a key.

What the backend can is found out when the servers start, with a handful of requests for a token or four, and
told on one line. One that is not up yet, or still loads its model, is asked again until it is; calls wait.

    policy_model: inference worker serves Qwen/Qwen3-0.6B (vllm); calls go to /v1/chat/completions; a cut call
    goes on by token_ids, else continue_final_message

Calls go to `/responses` where the backend has that, else to `/chat/completions`, which is also taken where it
tells token ids that can go back to it, and a checkpoint may want them. Function tools, tool choices, formats,
limits, stop strings, reasoning and refusals are put into either's words (`asking.py`, `answering.py`); fields
that nobody knows go on as they are, and `metadata.extra_body` as in NeMo Gym. What a chat has no words for,
`previous_response_id` or a tool of OpenAI's own, fails its call by name. A call that finds no room (429, or
503 with Retry-After) is made again for some two minutes, at growing distances, or later where it says so.

Told to stop, or at each `--checkpoint-every`, the model server writes down what has come of each call under
way. After a restart the same call goes on behind that, by the first means of this table that the probe has
shown and that fits the call; the answer is one Response, as if nobody had cut it:

    token_ids                prompt and prefix go back as token ids: vLLM, llama.cpp's server. Not with tools,
                             whose calls only the chat reads, nor where the caller wants log-probabilities
    continue_final_message   the text goes back as the last message: vLLM, SGLang, llama.cpp's server
    text_prefix              the same for backends that go on after a last message of the assistant unasked

A text goes back up to its last whole token that is no white space, tokens up to the last whole character. The
limit of the call is lowered by what has come, a stop string may begin before the cut and end behind it, and
usage counts all that the caller is given. Never cut, so generated again: what is decoded under a constraint,
a tool call that has begun, reasoning (the text after it goes on by token ids only), more than one choice,
penalties for repetition, and a call that goes on after a message of the assistant already. So is a call whose
cut is damaged, or is refused by the backend, or was begun by another model than answers now.

Each call's row in the model server's ledger (`capture/` below the checkpoint directory, and its records in a
checkpoint) says `continued_at` and `continued_by` where a call went on: after which token, by which means.

`--cuts`: no backend that adds floating-point numbers promises the same greedy text in one piece and in two.
`on`: what came was sampled from the policy, and so is the rest. `exact`: only greedy calls, and only by means
by which a short greedy answer was the same in two pieces when the backend was probed. `off`: none.
"""
