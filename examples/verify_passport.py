"""Verify a Bias Passport without fp2: python verify_passport.py passport.json PUBLIC_KEY.pem (status 0: valid).

It checks the first signature, which is that of whoever made the run, and every file that the passport states.
"""

import json
import sys
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

TYPE = "application/vnd.in-toto+json"
dsse, key = json.loads(Path(sys.argv[1]).read_bytes()), load_pem_public_key(Path(sys.argv[2]).read_bytes())
if not isinstance(key, Ed25519PublicKey) or dsse["payloadType"] != TYPE or not dsse["signatures"]:
    sys.exit(f"not valid: no Ed25519 key, no signature, or a payload type other than {TYPE}")
body, signature = b64decode(dsse["payload"], validate=True), b64decode(dsse["signatures"][0]["sig"])
try:
    key.verify(signature, b"DSSEv1 %d %b %d %b" % (len(TYPE), TYPE.encode(), len(body), body))
except InvalidSignature:
    sys.exit("not valid: another key signed it, or its payload was changed")
stated = {s["name"]: s["digest"]["sha256"] for s in json.loads(body)["subject"] if "uri" not in s}
files = {name: Path(sys.argv[1]).parent / name for name in stated}
changed = [name for name, f in files.items() if not f.is_file() or sha256(f.read_bytes()).hexdigest() != stated[name]]
sys.exit("changed or missing: " + ", ".join(changed)) if changed else print("passport valid")
