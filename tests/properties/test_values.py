"""The sortable bytes of a value sort as the values do, and determine the value completely."""

from hypothesis import example, given

from providers.contract_tests.model import same, sort_key
from tests.properties.strategies import METADATA, SCALARS
from wrapper.catalog.reads import AFTER_SCALARS, LOWEST_SCALAR
from wrapper.catalog.sortable_values import decode_value, encode_element, encode_value, flatten


@example(2**53, float(2**53))
@example(2**53 + 1, float(2**53))
@example(2**63 - 1, float(2**63))
@example(2**64 - 1, float(2**64))
@example(-(2**63), -float(2**63))
@example(-(2**53) - 1, -float(2**53))
@example(0.0, -0.0)
@example(0, -5e-324)
@example(True, 1)
@example("\uffff", "\U00010000")
@example("a", "a\x00")
@given(SCALARS, SCALARS)
def test_the_bytes_sort_as_the_values_do(left, right):
    first, second = encode_value(left), encode_value(right)
    assert (first < second) == (sort_key(left) < sort_key(right))
    assert (first == second) == same(left, right)
    assert (encode_element(left) < encode_element(right)) == (first < second)


@example(2**63)
@example(2**64 - 1)
@example(-0.0)
@given(SCALARS)
def test_decoding_gives_the_value_back(value):
    assert same(decode_value(encode_value(value)), value)
    assert same(decode_value(encode_element(value)), value)
    assert LOWEST_SCALAR <= encode_value(value) < AFTER_SCALARS
    assert encode_element(value) >= AFTER_SCALARS
    assert len(encode_value(value)) <= 11 or isinstance(value, str)


@given(METADATA)
def test_fields_do_not_depend_on_the_order_of_keys(metadata):
    def reversed_keys(value):
        if isinstance(value, dict):
            return {key: reversed_keys(value[key]) for key in reversed(value)}
        return value

    assert flatten(metadata) == flatten(reversed_keys(metadata))
