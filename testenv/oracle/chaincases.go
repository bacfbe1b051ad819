package main

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"time"
)

// chainCases are the ways in which a chain can be odd. testenv/oracle-tests says what each must lead to.
var chainCases = []namedChange{
	{"plain", func(*model) {}},
	{"through an intermediate", func(m *model) { m.throughMiddle() }},

	{"root on P-224", signedBy("p224", "ecdsa-sha256")},
	{"root on P-384", signedBy("p384", "ecdsa-sha384")},
	{"root on P-521", signedBy("p521", "ecdsa-sha512")},
	{"root on P-256 with SHA-384", signedBy("p256", "ecdsa-sha384")},
	{"root on P-256 with SHA-512", signedBy("p256", "ecdsa-sha512")},
	{"root on P-384 with SHA-256", signedBy("p384", "ecdsa-sha256")},
	{"root on P-384 with SHA-512", signedBy("p384", "ecdsa-sha512")},
	{"root on P-256 with SHA-1", signedBy("p256", "ecdsa-sha1")},
	{"root on RSA 1024", signedBy("rsa1024", "rsa-sha256")},
	{"root on RSA 1536", signedBy("rsa1536", "rsa-sha256")},
	{"root on RSA 2048", signedBy("rsa2048", "rsa-sha256")},
	{"root on RSA 2048 with SHA-384", signedBy("rsa2048", "rsa-sha384")},
	{"root on RSA 2048 with SHA-512", signedBy("rsa2048", "rsa-sha512")},
	{"root on RSA 2048 with SHA-1", signedBy("rsa2048", "rsa-sha1")},
	{"root on RSA 3072", signedBy("rsa3072", "rsa-sha256")},
	{"root on RSA with PSS", signedBy("rsa2048", "pss-sha256")},
	{"root on RSA with PSS and SHA-384", signedBy("rsa2048", "pss-sha384")},
	{"root on RSA with PSS and SHA-512", signedBy("rsa2048", "pss-sha512")},
	{"root on Ed25519", signedBy("ed25519", "ed25519")},
	{"leaf on P-224", leafKey("p224")},
	{"leaf on P-384", leafKey("p384")},
	{"leaf on P-521", leafKey("p521")},
	{"leaf on RSA 1024", leafKey("rsa1024")},
	{"leaf on RSA 2048", leafKey("rsa2048")},
	{"leaf on Ed25519", leafKey("ed25519")},
	{"other algorithm outside than inside", func(m *model) { m.leaf.outer = "ecdsa-sha384" }},
	{"signature of somebody else", func(m *model) {
		m.finally(func(out *chainCase) { out.Certificates[0] = m.leaf.sign(keyOf("p256", 9)) })
	}},
	{"bit flipped in the signature", func(m *model) {
		m.leaf.finish = func(der []byte) []byte { der[len(der)-1] ^= 1; return der }
	}},
	{"bytes behind the certificate", func(m *model) {
		m.leaf.finish = func(der []byte) []byte { return append(der, 0) }
	}},

	{"leaf of version 1", func(m *model) { m.leaf.version, m.leaf.extensions = 0, nil }},
	{"leaf of version 2", func(m *model) { m.leaf.version, m.leaf.extensions = 1, nil }},
	{"leaf of version 4", func(m *model) { m.leaf.version = 3 }},
	{"leaf of version 1 with extensions", func(m *model) { m.leaf.version = 0 }},
	{"leaf without extensions", func(m *model) { m.leaf.extensions = nil }},
	{"leaf with an empty list of extensions", func(m *model) { m.leaf.extensions = []pkix.Extension{} }},
	{"intermediate of version 1", func(m *model) { m.throughMiddle().version, m.middle.extensions = 0, nil }},
	{"root of version 1", func(m *model) { m.root.version, m.root.extensions = 0, nil }},
	{"root of version 1 above an intermediate", func(m *model) {
		m.throughMiddle()
		m.root.version, m.root.extensions = 0, nil
	}},
	{"negative serial", func(m *model) { m.leaf.serial = []byte{0x80} }},
	{"zero serial", func(m *model) { m.leaf.serial = []byte{0} }},
	{"serial of 20 bytes", func(m *model) { m.leaf.serial = []byte(strings.Repeat("\x7f", 20)) }},
	{"serial of 21 bytes", func(m *model) { m.leaf.serial = []byte(strings.Repeat("\x7f", 21)) }},
	{"serial with a leading zero", func(m *model) { m.leaf.serial = []byte{0, 1} }},
	{"empty serial", func(m *model) { m.leaf.serial = nil }},
	{"negative serial of the intermediate", func(m *model) { m.throughMiddle().serial = []byte{0x80} }},
	{"negative serial of the root", func(m *model) { m.root.serial = []byte{0x80} }},

	{"leaf expired", func(m *model) { m.leaf.notAfter = utcTime(today.Add(-time.Second)) }},
	{"leaf expires now", func(m *model) { m.leaf.notAfter = utcTime(today) }},
	{"leaf not yet valid", func(m *model) { m.leaf.notBefore = utcTime(today.Add(time.Second)) }},
	{"leaf valid from now", func(m *model) { m.leaf.notBefore = utcTime(today) }},
	{"intermediate expired", func(m *model) { m.throughMiddle().notAfter = utcTime(today.Add(-time.Second)) }},
	{"intermediate not yet valid", func(m *model) { m.throughMiddle().notBefore = utcTime(today.Add(time.Second)) }},
	{"root expired", func(m *model) { m.root.notAfter = utcTime(today.Add(-time.Second)) }},
	{"root not yet valid", func(m *model) { m.root.notBefore = utcTime(today.Add(time.Second)) }},
	{"validity before it begins", func(m *model) {
		m.leaf.notBefore, m.leaf.notAfter = utcTime(today.Add(year)), utcTime(today.Add(-year))
	}},
	{"GeneralizedTime before 2050", func(m *model) { m.leaf.notAfter = generalizedTime(today.Add(year)) }},
	{"valid until 2060", func(m *model) { m.leaf.notAfter = generalizedTime(today.Add(30 * year)) }},
	{"valid for ever", func(m *model) { m.leaf.notAfter = element(0x18, []byte("99991231235959Z")) }},
	{"valid since 1950", func(m *model) { m.leaf.notBefore = element(0x17, []byte("500101000000Z")) }},
	{"time without seconds", func(m *model) { m.leaf.notAfter = element(0x17, []byte("3101010000Z")) }},
	{"time with an offset", func(m *model) { m.leaf.notAfter = element(0x17, []byte("310101000000+0000")) }},
	{"time with fractions", func(m *model) { m.leaf.notAfter = element(0x18, []byte("20310101000000.5Z")) }},
	{"time of no calendar", func(m *model) { m.leaf.notAfter = element(0x17, []byte("310230000000Z")) }},

	{"no extended key usage", func(m *model) { m.leaf.without(asn1.ObjectIdentifier{2, 5, 29, 37}) }},
	{"server usage only", leafWith(extKeyUsage(serverAuth))},
	{"server and client usage", leafWith(extKeyUsage(serverAuth, clientAuth))},
	{"any usage only", leafWith(extKeyUsage(anyUsage))},
	{"any and server usage", leafWith(extKeyUsage(serverAuth, anyUsage))},
	{"any and client usage", leafWith(extKeyUsage(anyUsage, clientAuth))},
	{"empty extended key usage", leafWith(extKeyUsage())},
	{"unknown usage only", leafWith(extKeyUsage(asn1.ObjectIdentifier{1, 2, 3}))},
	{"critical client usage", leafWith(func() pkix.Extension { e := extKeyUsage(clientAuth); e.Critical = true; return e }())},
	{"intermediate of server usage", middleWith(extKeyUsage(serverAuth))},
	{"intermediate of client usage", middleWith(extKeyUsage(clientAuth))},
	{"intermediate of any usage", middleWith(extKeyUsage(anyUsage))},
	{"intermediate of client usage, leaf of none", func(m *model) {
		m.throughMiddle().with(extKeyUsage(clientAuth))
		m.leaf.without(asn1.ObjectIdentifier{2, 5, 29, 37})
	}},
	{"intermediate of server usage, leaf of none", func(m *model) {
		m.throughMiddle().with(extKeyUsage(serverAuth))
		m.leaf.without(asn1.ObjectIdentifier{2, 5, 29, 37})
	}},
	{"root of server usage", rootWith(extKeyUsage(serverAuth))},
	{"root of client usage", rootWith(extKeyUsage(clientAuth))},

	{"leaf that may only sign certificates", leafWith(keyUsage(0x04))},
	{"leaf that may only encipher", leafWith(keyUsage(0x20))},
	{"leaf without key usage", func(m *model) { m.leaf.without(asn1.ObjectIdentifier{2, 5, 29, 15}) }},
	{"intermediate that may not sign", middleWith(keyUsage(0x80))},
	{"intermediate without key usage", func(m *model) { m.throughMiddle().without(asn1.ObjectIdentifier{2, 5, 29, 15}) }},
	{"root that may not sign", rootWith(keyUsage(0x80))},
	{"leaf that is a CA", leafWith(basicConstraints(true, -1))},
	{"leaf that says it is no CA", leafWith(basicConstraints(false, -1))},
	{"leaf with a path length that is no CA", leafWith(basicConstraints(false, 0))},
	{"intermediate without basic constraints", func(m *model) { m.throughMiddle().without(asn1.ObjectIdentifier{2, 5, 29, 19}) }},
	{"intermediate that is no CA", middleWith(basicConstraints(false, -1))},
	{"intermediate of path length 0", middleWith(basicConstraints(true, 0))},
	{"root without basic constraints", func(m *model) { m.root.without(asn1.ObjectIdentifier{2, 5, 29, 19}) }},
	{"root that is no CA", rootWith(basicConstraints(false, -1))},
	{"root of path length 0", rootWith(basicConstraints(true, 0))},
	{"root of path length 0 above an intermediate", func(m *model) {
		m.throughMiddle()
		m.root.with(basicConstraints(true, 0))
	}},
	{"root of path length 1 above an intermediate", func(m *model) {
		m.throughMiddle()
		m.root.with(basicConstraints(true, 1))
	}},

	{"permits DNS, leaf has none", middleWith(constraints(true, true, 0x82, "example.com"))},
	{"permits DNS, leaf has that", both(middleWith(constraints(true, true, 0x82, "example.com")), leafWith(alternative(0x82, "a.example.com")))},
	{"permits DNS, leaf has another", both(middleWith(constraints(true, true, 0x82, "example.com")), leafWith(alternative(0x82, "a.example.org")))},
	{"excludes DNS, leaf has that", both(middleWith(constraints(true, false, 0x82, "example.com")), leafWith(alternative(0x82, "a.example.com")))},
	{"excludes DNS, leaf has another", both(middleWith(constraints(true, false, 0x82, "example.com")), leafWith(alternative(0x82, "a.example.org")))},
	{"permits DNS without being critical, leaf has another", both(middleWith(constraints(false, true, 0x82, "example.com")), leafWith(alternative(0x82, "a.example.org")))},
	{"permits an address, leaf has that", both(middleWith(constraints(true, true, 0x87, "\x0a\x00\x00\x00\xff\x00\x00\x00")), leafWith(alternative(0x87, "\x0a\x01\x02\x03")))},
	{"permits an address, leaf has another", both(middleWith(constraints(true, true, 0x87, "\x0a\x00\x00\x00\xff\x00\x00\x00")), leafWith(alternative(0x87, "\x0b\x01\x02\x03")))},
	{"permits mail, leaf has that", both(middleWith(constraints(true, true, 0x81, "example.com")), leafWith(alternative(0x81, "a@example.com")))},
	{"permits mail, leaf has another", both(middleWith(constraints(true, true, 0x81, "example.com")), leafWith(alternative(0x81, "a@example.org")))},
	{"permits URIs, leaf has that", both(middleWith(constraints(true, true, 0x86, "example.com")), leafWith(alternative(0x86, "spiffe://example.com/a")))},
	{"permits URIs, leaf has another", both(middleWith(constraints(true, true, 0x86, "example.com")), leafWith(alternative(0x86, "spiffe://example.org/a")))},
	{"permits directory names", middleWith(constraints(true, true, 0xa4, string(named("alice"))))},
	{"excludes directory names", middleWith(constraints(true, false, 0xa4, string(named("alice"))))},
	{"excludes directory names without being critical", middleWith(constraints(false, false, 0xa4, string(named("alice"))))},
	{"root permits DNS, leaf has another", both(rootWith(constraints(true, true, 0x82, "example.com")), leafWith(alternative(0x82, "a.example.org")))},
	{"leaf with name constraints", leafWith(constraints(true, true, 0x82, "example.com"))},
	{"broken alternative name", leafWith(extension(false, []byte{1, 2, 3}, 2, 5, 29, 17))},
	{"empty alternative names", leafWith(extension(false, element(0x30), 2, 5, 29, 17))},
	{"alternative name of an odd address", leafWith(alternative(0x87, "abc"))},
	{"alternative name that is not ASCII", leafWith(alternative(0x82, "\xff"))},

	{"unknown extension", leafWith(unknown(false))},
	{"unknown critical extension", leafWith(unknown(true))},
	{"unknown critical extension of the intermediate", middleWith(unknown(true))},
	{"unknown critical extension of the root", rootWith(unknown(true))},
	{"unknown extension twice", func(m *model) { m.leaf.extensions = append(m.leaf.extensions, unknown(false), unknown(false)) }},
	{"key usage twice", func(m *model) { m.leaf.extensions = append(m.leaf.extensions, keyUsage(0x80)) }},
	{"critical certificate policies", leafWith(extension(true, element(0x30, element(0x30, marshal(asn1.ObjectIdentifier{2, 5, 29, 32, 0}))), 2, 5, 29, 32))},
	{"critical policy constraints of the intermediate", middleWith(extension(true, element(0x30, []byte{0x80, 1, 0}), 2, 5, 29, 36))},
	{"critical inhibit any policy of the intermediate", middleWith(extension(true, marshal(0), 2, 5, 29, 54))},
	{"critical subject key id", leafWith(extension(true, []byte{4, 1, 1}, 2, 5, 29, 14))},
	{"authority key id of another", leafWith(extension(false, element(0x30, []byte{0x80, 1, 9}), 2, 5, 29, 35))},
	{"broken key usage", leafWith(extension(true, []byte{3, 0}, 2, 5, 29, 15))},
	{"broken basic constraints", leafWith(extension(true, []byte{4, 0}, 2, 5, 29, 19))},
	{"critical CRL distribution points", leafWith(extension(true, element(0x30), 2, 5, 29, 31))},

	{"leaf in the pool", func(m *model) {
		m.finally(func(out *chainCase) { out.Roots = append(out.Roots, out.Certificates[0]) })
	}},
	{"leaf alone in the pool", func(m *model) {
		m.finally(func(out *chainCase) { out.Roots = out.Certificates[:1] })
	}},
	{"self-signed leaf", func(m *model) {
		m.leaf.issuer = m.leaf.subject
		m.finally(func(out *chainCase) { out.Certificates = [][]byte{m.leaf.sign(m.leaf.key)} })
	}},
	{"self-signed leaf in the pool", func(m *model) {
		m.leaf.issuer = m.leaf.subject
		m.finally(func(out *chainCase) {
			out.Certificates = [][]byte{m.leaf.sign(m.leaf.key)}
			out.Roots = out.Certificates
		})
	}},
	{"the root itself", func(m *model) { m.finally(func(out *chainCase) { out.Certificates = out.Roots }) }},
	{"intermediate in the pool without its root", func(m *model) {
		m.throughMiddle()
		m.finally(func(out *chainCase) { out.Roots = [][]byte{out.Certificates[1]} })
	}},
	{"intermediate is missing", func(m *model) {
		m.throughMiddle()
		m.finally(func(out *chainCase) { out.Certificates = out.Certificates[:1] })
	}},
	{"root sent along", func(m *model) {
		m.finally(func(out *chainCase) { out.Certificates = append(out.Certificates, out.Roots[0]) })
	}},
	{"foreign root sent along", func(m *model) {
		foreign := plainAuthority("root", 8)
		m.finally(func(out *chainCase) {
			out.Certificates = [][]byte{m.leaf.sign(foreign.key), foreign.sign(foreign.key)}
		})
	}},
	{"leaf twice", func(m *model) {
		m.finally(func(out *chainCase) { out.Certificates = append(out.Certificates, out.Certificates[0]) })
	}},
	{"intermediate twice", func(m *model) {
		m.throughMiddle()
		m.finally(func(out *chainCase) { out.Certificates = append(out.Certificates, out.Certificates[1]) })
	}},
	{"out of order", func(m *model) {
		m.throughMiddle()
		m.finally(func(out *chainCase) {
			out.Certificates = [][]byte{out.Certificates[0], out.Roots[0], plainAuthority("x", 8).sign(keyOf("p256", 8)), out.Certificates[1]}
		})
	}},
	{"garbage sent along", func(m *model) {
		m.finally(func(out *chainCase) { out.Certificates = append(out.Certificates, []byte{0x30, 0}) })
	}},
	{"cross-signed intermediate", func(m *model) {
		foreign := plainAuthority("foreign", 8)
		cross := *m.throughMiddle()
		cross.issuer = foreign.subject
		m.finally(func(out *chainCase) {
			out.Certificates = [][]byte{out.Certificates[0], cross.sign(foreign.key), out.Certificates[1]}
		})
	}},
	{"intermediates that signed each other", func(m *model) {
		other := plainAuthority("other", 7)
		back := *m.throughMiddle()
		back.issuer, other.issuer = other.subject, back.subject
		m.finally(func(out *chainCase) {
			out.Certificates = [][]byte{out.Certificates[0], back.sign(other.key), other.sign(back.key)}
		})
	}},
	{"two roots of one name", func(m *model) {
		m.finally(func(out *chainCase) {
			out.Roots = [][]byte{plainAuthority("root", 8).sign(keyOf("p256", 8)), out.Roots[0]}
		})
	}},
	{"expired root beside its renewal", func(m *model) {
		old := *m.root
		old.notAfter = utcTime(today.Add(-time.Second))
		m.finally(func(out *chainCase) { out.Roots = [][]byte{old.sign(old.key), out.Roots[0]} })
	}},
	{"5 intermediates", deep(5)},
	{"6 intermediates", deep(6)},
	{"7 intermediates", deep(7)},
	{"8 intermediates", deep(8)},
	{"no issuer name", func(m *model) { m.leaf.issuer = element(0x30) }},

	{"several common names", subject(attribute(oidCN, utf8String, "first"), attribute(oidO, utf8String, "dev"), attribute(oidCN, utf8String, "last"))},
	{"last common name empty", subject(attribute(oidCN, utf8String, "first"), attribute(oidCN, utf8String, ""))},
	{"common name empty", commonName(utf8String, "")},
	{"no common name", subject(attribute(oidO, utf8String, "dev"))},
	{"empty subject", subject()},
	{"attributes in one set", subject(append(attribute(oidCN, utf8String, "alice"), attribute(oidO, utf8String, "dev")...))},
	{"common names in one set", subject(append(attribute(oidCN, utf8String, "alice"), attribute(oidCN, utf8String, "bob")...))},
	{"organizations in one set out of order", subject(append(attribute(oidO, utf8String, "z"), attribute(oidO, utf8String, "a")...), attribute(oidCN, utf8String, "alice"))},
	{"organizations in order", subject(attribute(oidO, utf8String, "z"), attribute(oidO, utf8String, "a"), attribute(oidO, utf8String, "z"), attribute(oidCN, utf8String, "alice"))},
	{"organization empty", subject(attribute(oidO, utf8String, ""), attribute(oidCN, utf8String, "alice"))},
	{"organization authenticated", subject(attribute(oidO, utf8String, "system:authenticated"), attribute(oidCN, utf8String, "alice"))},
	{"organization unauthenticated", subject(attribute(oidO, utf8String, "system:unauthenticated"), attribute(oidCN, utf8String, "alice"))},
	{"common name anonymous", commonName(utf8String, "system:anonymous")},
	{"255 organizations", groups(254)},
	{"300 organizations", groups(300)},
	{"UID", subject(attribute(oidCN, utf8String, "alice"), attribute(oidUID, utf8String, "42"))},
	{"UID twice", subject(attribute(oidCN, utf8String, "alice"), attribute(oidUID, utf8String, "42"), attribute(oidUID, utf8String, "42"))},
	{"UID empty", subject(attribute(oidCN, utf8String, "alice"), attribute(oidUID, utf8String, ""))},
	{"UID empty without common name", subject(attribute(oidUID, utf8String, ""))},
	{"UID twice without common name", subject(attribute(oidUID, utf8String, "1"), attribute(oidUID, utf8String, "2"))},
	{"UID that is a number", subject(attribute(oidCN, utf8String, "alice"), attribute(oidUID, 2, "\x05"))},
	{"UID with a blank at its end", subject(attribute(oidCN, utf8String, "alice"), attribute(oidUID, utf8String, "4 "))},
	{"common name that is a number", commonName(2, "\x05")},
	{"common name that is a sequence", commonName(0x30, "")},
	{"common name PrintableString", commonName(printableString, "alice")},
	{"common name PrintableString with a colon", commonName(printableString, "system:node:a")},
	{"common name PrintableString with at, star and ampersand", commonName(printableString, "a@b*c&d")},
	{"common name PrintableString with an underscore", commonName(printableString, "a_b")},
	{"common name PrintableString that is not ASCII", commonName(printableString, "\xc3\xbc")},
	{"common name IA5String", commonName(ia5String, "a_b@c")},
	{"common name IA5String that is not ASCII", commonName(ia5String, "\xfc")},
	{"common name NumericString", commonName(numericString, "12 3")},
	{"common name NumericString with letters", commonName(numericString, "1a")},
	{"common name VisibleString", commonName(visibleString, "alice")},
	{"common name T61String", commonName(t61String, "alice")},
	{"common name T61String that is not ASCII", commonName(t61String, "\xfc")},
	{"common name BMPString", commonName(bmpString, "\x00a\x00b")},
	{"common name BMPString of odd length", commonName(bmpString, "\x00a\x00")},
	{"common name BMPString with a NUL at its end", commonName(bmpString, "\x00a\x00\x00")},
	{"common name UniversalString", commonName(universalString, "\x00\x00\x00a")},
	{"common name of invalid UTF-8", commonName(utf8String, "a\xff")},
	{"common name beyond ASCII", commonName(utf8String, "Zoë 🦀")},
	{"common name with NUL", commonName(utf8String, "a\x00b")},
	{"common name with a line break", commonName(utf8String, "a\r\nImpersonate-Group: system:masters")},
	{"common name with a tab", commonName(utf8String, "a\tb")},
	{"common name with a blank in front", commonName(utf8String, " alice")},
	{"common name with a blank behind", commonName(utf8String, "alice ")},
	{"common name with a blank inside", commonName(utf8String, "alice b")},
	{"common name with a no-break space behind", commonName(utf8String, "alice\u00a0")},
	{"common name of 1000 bytes", commonName(utf8String, strings.Repeat("a", 1000))},
	{"organization with a blank in front", subject(attribute(oidO, utf8String, " system:masters"), attribute(oidCN, utf8String, "alice"))},
	{"organization BMPString", subject(attribute(oidO, bmpString, "\x00a\x00b"), attribute(oidCN, utf8String, "alice"))},
	{"organization that is a number", subject(attribute(oidO, 2, "\x05"), attribute(oidCN, utf8String, "alice"))},
	{"organizational unit BMPString", subject(ouBMP, attribute(oidCN, utf8String, "alice"))},
	{"organizational unit that is a number", subject(attribute(oidOU, 2, "\x05"), attribute(oidCN, utf8String, "alice"))},
	{"organizational unit of invalid UTF-8", subject(attribute(oidOU, utf8String, "\xff"), attribute(oidCN, utf8String, "alice"))},
	{"empty set in the subject", subject([]byte{}, attribute(oidCN, utf8String, "alice"))},
	{"empty set behind the common name", subject(attribute(oidCN, utf8String, "alice"), []byte{}, attribute(oidCN, utf8String, "bob"))},
	{"garbage behind the common name", subject(attribute(oidCN, utf8String, "alice"), []byte{0x30, 0}, attribute(oidCN, utf8String, "bob"))},
	{"garbage behind the common name in its set", subject(append(attribute(oidCN, utf8String, "alice"), 5, 0))},
	{"broken Netscape comment", leafWith(extension(false, null, 2, 16, 840, 1, 113730, 1, 13))},
	{"broken list of signed timestamps", leafWith(extension(false, null, 1, 3, 6, 1, 4, 1, 11129, 2, 4, 2))},
	{"broken issuer alternative name", leafWith(extension(false, null, 2, 5, 29, 18))},
	{"alternative name of kubeadm's CA", rootWith(alternative(0x82, "kubernetes"))},
	{"certificate policies twice", leafWith(extension(false, element(0x30, element(0x30, marshal(anyUsage)), element(0x30, marshal(anyUsage))), 2, 5, 29, 32))},
	{"broken certificate policies", leafWith(extension(false, element(0x30, null), 2, 5, 29, 32))},
	{"broken subject key id", leafWith(extension(false, null, 2, 5, 29, 14))},
	{"broken authority key id", leafWith(extension(false, null, 2, 5, 29, 35))},
	{"critical authority key id", leafWith(extension(true, element(0x30), 2, 5, 29, 35))},
	{"broken CRL distribution points", leafWith(extension(false, null, 2, 5, 29, 31))},
	{"broken authority information", leafWith(extension(false, null, 1, 3, 6, 1, 5, 5, 7, 1, 1))},
	{"broken name constraints of the intermediate", middleWith(extension(true, null, 2, 5, 29, 30))},
	{"broken extended key usage", leafWith(extension(false, null, 2, 5, 29, 37))},
	{"bytes behind an extension", leafWith(extension(true, append([]byte{3, 2, 7, 0x80}, 5, 0), 2, 5, 29, 15))},
	{"key usage with unused bits that are set", leafWith(extension(true, []byte{3, 2, 7, 0xff}, 2, 5, 29, 15))},
	{"key usage of no bits", leafWith(extension(true, []byte{3, 1, 0}, 2, 5, 29, 15))},
	{"intermediate with key usage of no bits", middleWith(extension(true, []byte{3, 1, 0}, 2, 5, 29, 15))},
	{"URI that is relative", leafWith(alternative(0x86, "a/b"))},
	{"URI that is opaque", leafWith(alternative(0x86, "urn:uuid:1"))},
	{"URI of an address", leafWith(alternative(0x86, "https://10.0.0.1/"))},
	{"URI with a bad escape", leafWith(alternative(0x86, "spiffe://a/%zz"))},
	{"URI with an empty label", leafWith(alternative(0x86, "spiffe://a..b/c"))},
	{"URI with a port", leafWith(alternative(0x86, "https://a:1/c"))},
	{"URI with a blank", leafWith(alternative(0x86, "https://a b/"))},
	{"URI of a SPIFFE id", leafWith(alternative(0x86, "spiffe://cluster.local/ns/a/sa/b"))},
	{"attribute with more than a value", subject(element(0x30, marshal(oidCN), element(utf8String, []byte("a")), element(utf8String, []byte("b"))))},
}
