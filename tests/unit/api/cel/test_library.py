"""The libraries that Kubernetes adds, by example."""

import pytest

from alcove.api.cel.budget import CostBudget
from alcove.api.cel.environment import CelEnvironment
from alcove.api.cel.errors import CelError

ENVIRONMENT = CelEnvironment({})


def evaluate(source: str) -> object:
    return ENVIRONMENT.compile(source).evaluate((), CostBudget())


STRINGS = [
    "'tacocat'.charAt(3) == 'o' && 'ab'.charAt(2) == ''",
    "'tacocat'.indexOf('a') == 1 && 'tacocat'.indexOf('a', 2) == 5 && 'abc'.indexOf('') == 0 && 'abc'.indexOf('z') == -1",
    "'tacocat'.lastIndexOf('a') == 5 && 'tacocat'.lastIndexOf('a', 4) == 1 && 'abc'.lastIndexOf('') == 3",
    "'TacoCÀt'.lowerAscii() == 'tacocÀt' && 'é'.upperAscii() == 'é' && 'ab'.upperAscii() == 'AB'",
    "'hello hello'.replace('he', 'we') == 'wello wello' && 'aaa'.replace('a', 'b', 2) == 'bba'",
    "'ab'.replace('', '_') == '_a_b_' && 'ab'.replace('a', 'x', 0) == 'ab'",
    "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'a'.split(',', 0) == []",
    "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc']",
    "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
    "' \\t\\ntrim\\u00a0 '.trim() == 'trim'",
    "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
    "strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'",
    "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.matches('^a.c$') && matches('b', 'b')",
]
FORMATTING = [
    "'%s %d %s'.format(['a', 1, [1, 'x']]) == 'a 1 [1, \"x\"]'",
    "'%.2f|%x|%X|%o|%b|%%'.format([1.005, 255, 'hi', 8, 5]) == '1.00|ff|6869|10|101|%'",
    "'%s'.format([{'b': 1.5, 'a': true}]) == '{\"a\":true, \"b\":1.500000}'",
    "'%e'.format([1052.03]) == '1.052030\\u202f\\u00d7\\u202f10\\u2070\\u00b3'",
    "'%s'.format([duration('90s')]) == '90s' && '%s'.format([null]) == 'null' && '%s'.format([int]) == 'int'",
]
LISTS = [
    "[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [1.0].isSorted()",
    "[1, 3].sum() == 4 && [1.5, 1.5].sum() == 3.0 && [duration('1m'), duration('1s')].sum() == duration('61s')",
    "[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && ['b', 'a'].min() == 'a'",
    "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(5) == -1",
    "[1, 2].includes(2) && !'model-a'.includes('b') && 'x'.includes('x')",
    "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2]",
    "[[1], [2, 3]].flatten() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2] && ['a', 'a'].distinct() == ['a']",
    "['b', 'a'].sort() == ['a', 'b'] && [false, true].sort() == [false, true]",
    "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
    "sets.contains([1, 2, 3], [2, 1]) && sets.equivalent([1, 1, 2], [2, 1]) && !sets.intersects([1], [2])",
    "[optional.of(1), optional.none()].unwrapOpt() == [1]",
]
REGEX = [
    "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('x') == ''",
    "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']",
    "'baac'.findAll('a*') == ['', 'aa', '']",
]
URLS = [
    "isURL('https://user:pass@example.com:80/path?query=val#fragment') && isURL('/absolute')",
    "!isURL('https://a:b:c/') && !isURL('../relative') && !isURL('') && !isURL('https://a b/') && !isURL('/%zz')",
    "url('https://example.com:80/').getHost() == 'example.com:80' && url('/p').getHost() == ''",
    "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]/').getHost() == '[::1]'",
    "url('https://example.com:80/').getPort() == '80' && url('https://e.com/').getPort() == ''",
    "url('https://e.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'",
    "url('https://e.com').getEscapedPath() == '' && url('HTTPS://e.com/').getScheme() == 'https'",
    "url('https://e.com/p?k1=a&k2=b&k2=c#f').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
    "url('https://e.com/p?key with spaces=v+w').getQuery() == {'key with spaces': ['v w']}",
    "url('/a') == url('/a') && url('/a') != url('/b')",
]
NETWORK = [
    "isIP('127.0.0.1') && isIP('::1') && !isIP('127.0.0.256') && !isIP(':::1') && !isIP('010.0.0.1')",
    "!isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
    "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')",
    "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && string(ip('::0:1')) == '::1'",
    "ip('0.0.0.0').isUnspecified() && ip('127.9.9.9').isLoopback() && ip('169.254.1.1').isLinkLocalUnicast()",
    "ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
    "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()",
    "isCIDR('192.168.0.0/16') && isCIDR('::1/128') && !isCIDR('192.168.0.0/33') && !isCIDR('10.0.0.0')",
    "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
    "cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && cidr('10.0.0.0/8').prefixLength() == 8",
    "cidr('192.168.0.1/24') != cidr('192.168.0.1/24').masked() && string(cidr('192.168.0.1/24').masked()) == '192.168.0.0/24'",
    "!cidr('10.0.0.0/8').containsIP('::1') && type(ip('::1')) == net.IP",
]
QUANTITIES = [
    "isQuantity('1.3Gi') && !isQuantity('1,3G') && !isQuantity('200K') && !isQuantity('Mi')",
    "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50Mi').isGreaterThan(quantity('50M'))",
    "quantity('50k').asInteger() == 50000 && !quantity('9999999999999999999999999999999999999G').isInteger()",
    "quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')",
    "quantity('50k').sub(20000).asApproximateFloat() == 30000.0 && quantity('-1').sign() == -1",
    "quantity('50M').isLessThan(quantity('100M'))",
]
SEMVER = [
    "isSemver('1.0.0') && !isSemver('v1.0') && isSemver('v1.0', true) && !isSemver('hello') && !isSemver('01.0.0')",
    "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0')) && semver('1.0.0-2').isLessThan(semver('1.0.0-10'))",
    "semver('1.0.0-10').isLessThan(semver('1.0.0-a')) && semver('2.0.0').compareTo(semver('1.9.9')) == 1",
    "semver('1.0.0+a') == semver('1.0.0+b') && semver('01.01.01', true) == semver('1.1.1')",
]
FORMATS = [
    "!format.dns1123Label().validate('my-name').hasValue() && format.dns1123Label().validate('My_Name').hasValue()",
    "format.named('dns1035Label').value().validate('1a').value().size() == 1 && !format.named('nope').hasValue()",
    "!format.uri().validate('https://e.com').hasValue() && format.uuid().validate('x').value() == ['does not match the UUID format']",
    "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue() && format.date().validate('2021-13-01').hasValue()",
    "!format.byte().validate('aGVsbG8=').hasValue() && !format.labelValue().validate('').hasValue()",
    "!format.dns1123LabelPrefix().validate('my-').hasValue()",
]
TIMES = [
    "timestamp('2023-07-14T10:30:45.123Z').getFullYear() == 2023 && timestamp('2023-07-14T10:30:45.123Z').getMonth() == 6",
    "timestamp('2023-07-14T10:30:45.123Z').getDate() == 14 && timestamp('2023-07-14T10:30:45.123Z').getDayOfMonth() == 13",
    "timestamp('2023-07-14T10:30:45.123Z').getDayOfWeek() == 5 && timestamp('2023-07-14T10:30:45.123Z').getDayOfYear() == 194",
    "timestamp('2023-01-01T05:30:00Z').getFullYear('-08:00') == 2022",
    "timestamp('2023-07-14T10:30:45.123Z').getHours('Europe/Berlin') == 12 && timestamp('2023-07-14T10:30:45.123Z').getMilliseconds() == 123",
    "duration('3723s').getHours() == 1 && duration('3723s').getMinutes() == 62 && duration('1.5s').getMilliseconds() == 500",
    "int(timestamp('1970-01-01T00:00:01Z')) == 1 && int(duration('1s')) == 1000000000 && string(duration('1h30m')) == '5400s'",
    "timestamp('2023-01-10T12:00:00Z') - timestamp('2023-01-10T00:00:00Z') == duration('12h')",
]


@pytest.mark.parametrize(
    "source", STRINGS + FORMATTING + LISTS + REGEX + URLS + NETWORK + QUANTITIES + SEMVER + FORMATS + TIMES
)
def test_holds(source: str) -> None:
    assert evaluate(source) is True


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(4)", "index out of range: 4"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("[1].filter(x, false).min()", "min called on empty list"),
        (
            "'%d'.format(['a'])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s'.format([])", "index 0 out of range"),
        ("'%.200f'.format([1.0])", "precision 200 exceeds the maximum of 100"),
        ("'%'.format([])", "unexpected end of string"),
        ("'%q'.format([1])", 'could not parse formatting clause: unrecognized formatting clause "q"'),
        (
            "url('nope')",
            'URL parse error during conversion from string: parse "nope": invalid URI for request',
        ),
        ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("quantity('9999999999999999999999999999999999999G').asInteger()", "cannot convert value to integer"),
        ("timestamp('2023-01-01T00:00:00Z').getHours('Mars/Olympus')", "unknown time zone Mars/Olympus"),
        ("timestamp('2023-01-01T00:00:00Z').getHours('../etc/passwd')", "unknown time zone ../etc/passwd"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("semver('1.0', false)", "No Major.Minor.Patch elements found"),
    ],
)
def test_fails(source: str, message: str) -> None:
    with pytest.raises(CelError) as caught:
        evaluate(source)
    assert str(caught.value) == message
