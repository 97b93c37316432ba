"""Verify a Bias Passport without fp2: python verify_passport.py passport.json PUBLIC_KEY.pem (status 1: not valid)."""

import base64
import hashlib
import json
import pathlib
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

path, key = pathlib.Path(sys.argv[1]), load_pem_public_key(pathlib.Path(sys.argv[2]).read_bytes())
envelope = json.loads(path.read_bytes())
payload, kind = base64.b64decode(envelope["payload"], validate=True), envelope["payloadType"].encode()
described = {"keytype": "ed25519", "keyval": {"public": key.public_bytes_raw().hex()}, "scheme": "ed25519"}
name = hashlib.sha256(json.dumps(described, separators=(",", ":")).encode()).hexdigest()
by_key = [base64.b64decode(one["sig"]) for one in envelope["signatures"] if one["keyid"] == name]
try:
    key.verify((by_key or sys.exit("wrong key: it has not signed this passport"))[0],
               b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload))  # fmt: skip
except InvalidSignature:
    sys.exit("changed: the payload is not what this key signed")
for subject in json.loads(payload)["subject"]:
    file = path.parent / subject["name"]
    if "uri" not in subject and hashlib.sha256(file.read_bytes()).hexdigest() != subject["digest"]["sha256"]:
        sys.exit(f"changed: {subject['name']}")
print("passport valid")
