"""Words that a page, a terminal or a figure must show as words, whatever they try to be."""

from __future__ import annotations

HOSTILE = "</script><script>alert(1)</script>"
HOSTILE_TEXTS = [
    HOSTILE,
    "\"><img src=x onerror='alert(2)'>",
    "{{ 7 * 7 }} {% raw %} ${alert(3)} `${1}`",
    "\u202etxet lortnoc\u202c \x1b[31mred\x1b[0m \x00 null",
    "שלום, האדם הזה מורה — معلّم",
    "🧑🏾‍🔬 a scientist & an 'artist' <b>bold</b>",
    'javascript:alert(4) <a href="https://evil.example/">x</a> <style>@import url(//evil.example/)</style>',
]
