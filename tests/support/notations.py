"""The address that hands out a machine's credentials, in every notation it can be written in."""

METADATA = "169.254.169.254"
NOTATIONS = {
    "dotted": METADATA,
    "decimal": "2852039166",
    "hexadecimal": "0xA9FEA9FE",
    "dotted hexadecimal": "0xa9.0xfe.0xa9.0xfe",
    "octal": "0251.0376.0251.0376",
    "octal with zeros": "00000251.00376.000251.0376",
    "two parts": "169.16689662",
    "three parts": "169.254.43518",
    "mixed": "0xa9.254.0251.254",
    "full-width digits": "１６９.２５４.１６９.２５４",
    "circled digits": "①⑥⑨.②⑤④.①⑥⑨.②⑤④",
    "ideographic full stops": "169。254。169。254",
    "trailing dot": f"{METADATA}.",
    "mapped": "[::ffff:169.254.169.254]",
    "mapped in hexadecimal": "[0:0:0:0:0:FFFF:A9FE:A9FE]",
    "compatible": "[::169.254.169.254]",
    "NAT64": "[64:ff9b::a9fe:a9fe]",
    "6to4": "[2002:a9fe:a9fe::]",
    "Teredo": "[2001:0:c000:201:0:0:5601:5601]",
    "link-local": "[fe80::1]",
    "nothing": "0.0.0.0",
    "nothing, short": "0",
    "nothing in IPv6": "[::]",
    "AWS in IPv6": "[fd00:ec2::254]",
}
