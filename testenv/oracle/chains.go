package main

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"log"
	"math/rand"
	"os"
	"strings"
	"time"
)

// model is a root, an intermediate if there is one, and a leaf, before they are signed.
type model struct {
	root, middle, leaf *forged
	now                time.Time
	// after changes what is presented and what is trusted.
	after []func(*chainCase)
}

// chainCase is a named chain, in the shape of a question.
type chainCase struct {
	Ask          string   `json:"ask"`
	Name         string   `json:"name"`
	Certificates [][]byte `json:"certificates"`
	Roots        [][]byte `json:"roots"`
	Now          int64    `json:"now"`
	m            *model
}

var (
	today = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	year  = 365 * 24 * time.Hour
)

func plainCertificate(cn string, keyNumber int) *forged {
	return &forged{
		version: 2, serial: []byte{1, byte(keyNumber)}, subject: named(cn), issuer: named("root"),
		notBefore: utcTime(today.Add(-year)), notAfter: utcTime(today.Add(year)), key: keyOf("p256", keyNumber),
	}
}

func plainAuthority(cn string, keyNumber int) *forged {
	authority := plainCertificate(cn, keyNumber)
	authority.extensions = []pkix.Extension{basicConstraints(true, -1), keyUsage(0x04)}
	return authority
}

func plainModel() *model {
	leaf := plainCertificate("", 2)
	leaf.subject = name(attribute(oidO, utf8String, "dev"), attribute(oidCN, utf8String, "alice"))
	leaf.extensions = []pkix.Extension{keyUsage(0x80), extKeyUsage(clientAuth)}
	return &model{root: plainAuthority("root", 0), leaf: leaf, now: today}
}

// throughMiddle puts an intermediate between root and leaf.
func (m *model) throughMiddle() *forged {
	if m.middle == nil {
		m.middle = plainAuthority("middle", 1)
		m.leaf.issuer = m.middle.subject
	}
	return m.middle
}

func (m *model) finally(do func(*chainCase)) { m.after = append(m.after, do) }

func (m *model) build(name string) *chainCase {
	issuer := m.root
	out := &chainCase{Ask: "certificate", Name: name, Now: m.now.Unix(), m: m}
	if m.middle != nil {
		issuer = m.middle
	}
	out.Certificates = [][]byte{m.leaf.sign(issuer.key)}
	if m.middle != nil {
		out.Certificates = append(out.Certificates, m.middle.sign(m.root.key))
	}
	out.Roots = [][]byte{m.root.sign(m.root.key)}
	for _, change := range m.after {
		change(out)
	}
	return out
}

// printChains writes every named chain, then random pairs of what is wrong with them.
func printChains(seed int64, pairs int) {
	encoder := json.NewEncoder(os.Stdout)
	write := func(name string, changes ...func(*model)) {
		chain := changed(name, changes)
		if chain == nil {
			return
		}
		if err := encoder.Encode(chain); err != nil {
			log.Fatalf("oracle: %v", err)
		}
	}
	for _, c := range chainCases {
		write(c.name, c.change)
	}
	dice := rand.New(rand.NewSource(seed))
	for range pairs {
		a, b := chainCases[dice.Intn(len(chainCases))], chainCases[dice.Intn(len(chainCases))]
		write(a.name+" + "+b.name, a.change, b.change)
	}
}

// changed is nothing for changes that do not go together: where one takes the certificate away that another changes.
func changed(name string, changes []func(*model)) (chain *chainCase) {
	defer func() {
		if recover() != nil && len(changes) > 1 {
			chain = nil
		}
	}()
	m := plainModel()
	for _, change := range changes {
		change(m)
	}
	return m.build(name)
}

type namedChange struct {
	name   string
	change func(*model)
}

func signedBy(kind, scheme string) func(*model) {
	return func(m *model) {
		m.root.key = keyOf(kind, 0)
		m.leaf.scheme, m.root.scheme = scheme, scheme
	}
}

func leafKey(kind string) func(*model) { return func(m *model) { m.leaf.key = keyOf(kind, 2) } }

func subject(sets ...[]byte) func(*model) {
	return func(m *model) { m.leaf.subject = name(sets...) }
}

func commonName(tag byte, value string) func(*model) {
	return subject(attribute(oidO, utf8String, "dev"), attribute(oidCN, tag, value))
}

func leafWith(item pkix.Extension) func(*model) { return func(m *model) { m.leaf.with(item) } }

func middleWith(item pkix.Extension) func(*model) {
	return func(m *model) { m.throughMiddle().with(item) }
}

func rootWith(item pkix.Extension) func(*model) { return func(m *model) { m.root.with(item) } }

// constraints is a name constraints extension with one subtree: permitted or excluded, of a general name.
func constraints(critical, permitted bool, tag byte, value string) pkix.Extension {
	kind := byte(0xa1)
	if permitted {
		kind = 0xa0
	}
	return extension(critical, element(0x30, element(kind, element(0x30, element(tag, []byte(value))))), 2, 5, 29, 30)
}

func alternative(tag byte, value string) pkix.Extension {
	return extension(false, element(0x30, element(tag, []byte(value))), 2, 5, 29, 17)
}

func both(changes ...func(*model)) func(*model) {
	return func(m *model) {
		for _, change := range changes {
			change(m)
		}
	}
}

func groups(count int) func(*model) {
	return func(m *model) {
		var all [][]byte
		for number := range count {
			all = append(all, attribute(oidO, utf8String, "g"+strings.Repeat("x", number%7)))
		}
		m.leaf.subject = name(append(all, attribute(oidCN, utf8String, "alice"))...)
	}
}

func deep(length int) func(*model) {
	return func(m *model) {
		above := plainAuthority("deep", 3)
		above.subject = named("deep 0")
		m.root.subject, m.root.issuer = named("root"), named("root")
		previous, chain := m.root, [][]byte{}
		for level := range length {
			next := plainAuthority("deep", 3+level%6)
			next.subject, next.issuer = named("deep "+string(rune('a'+level))), previous.subject
			chain = append([][]byte{next.sign(previous.key)}, chain...)
			previous = next
		}
		m.finally(func(out *chainCase) {
			m.leaf.issuer = previous.subject
			out.Certificates = append([][]byte{m.leaf.sign(previous.key)}, chain...)
		})
	}
}

func unknown(critical bool) pkix.Extension {
	return extension(critical, null, 1, 3, 6, 1, 4, 1, 99999, 1)
}

var ouBMP = attribute(asn1.ObjectIdentifier(oidOU), bmpString, "\x00a\x00b")
