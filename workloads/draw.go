package workloads

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// digest hashes a seed with the names of a purpose.
func digest(seed uint64, purpose ...any) [32]byte {
	return sha256.Sum256([]byte(fmt.Sprintln(append([]any{seed}, purpose...)...)))
}

// stream returns the random stream of one purpose. Streams of different purposes
// are independent: a draw added to one does not move another.
func stream(seed uint64, purpose ...any) *rand.Rand {
	d := digest(seed, purpose...)
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint64(d[8:])))
}

// nonce names a purpose in eight letters and digits that no filler contains.
func nonce(seed uint64, purpose ...any) string {
	d := digest(seed, append([]any{"nonce"}, purpose...)...)
	return strings.ToLower(base32.StdEncoding.EncodeToString(d[:5]))
}

// drawWords chooses the sixteen words of a rule.
func drawWords(r *rand.Rand) []string {
	all := RuleWords()
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:16]
}

// fact is one planted fact.
type fact struct {
	Field
	kind string // JSON type
}

// factKinds are the types of facts, in the order in which they are planted.
func factKinds() [6]string {
	return [6]string{"string", "integer", "number", "boolean", "null", "array"}
}

// facts draws the facts of one conversation one after the other. Names are
// unique within the conversation.
type facts struct {
	r    *rand.Rand
	used map[string]bool
	n    int
}

func newFacts(r *rand.Rand) *facts { return &facts{r: r, used: map[string]bool{}} }

func (f *facts) next() fact {
	kind := factKinds()[f.n%6]
	f.n++
	return fact{Field{f.name(), json.RawMessage(f.value(kind))}, kind}
}

// name draws a name of two words. There are 64 × 12 of them; once most are used
// a number makes the rest unique.
func (f *facts) name() string {
	nouns := strings.Fields("size weight price depth owner code state limit level count color route")
	all := RuleWords()
	name := all[f.r.IntN(len(all))] + "_" + nouns[f.r.IntN(len(nouns))]
	for i := 2; f.used[name]; i++ {
		if next := name + "_" + strconv.Itoa(i); !f.used[next] {
			name = next
		}
	}
	f.used[name] = true
	return name
}

// value draws a value that the text of an asking turn never contains: numbers
// have three digits or more, strings two words, fractions are exact in binary.
func (f *facts) value(kind string) string {
	all := RuleWords()
	word := func() string { return all[f.r.IntN(len(all))] }
	switch kind {
	case "string":
		firsts := []string{word(), word(), word(), "größe", "你好", "🌍", "👩‍👩‍👧‍👦"}
		return quote(firsts[f.r.IntN(len(firsts))] + " " + word())
	case "integer":
		n := 1000 + f.r.IntN(900_000)
		if f.r.IntN(4) == 0 {
			n = -n
		}
		return strconv.Itoa(n)
	case "number":
		return strconv.FormatFloat(float64(100+f.r.IntN(9000))+float64(1+f.r.IntN(7))/8, 'f', -1, 64)
	case "boolean":
		return strconv.FormatBool(f.r.IntN(2) == 0)
	case "array":
		items := make([]string, 2+f.r.IntN(3))
		for i := range items {
			items[i] = strconv.Itoa(100 + f.r.IntN(900))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return "null"
}

// fillerWords are common words that start no directive and are no value.
func fillerWords() []string {
	return strings.Fields(`the of and to in is it that for was on are as with they at be this have from or by but what all
were we when your can there use an each which she do how their if will up other about out many then them these so some her
would make like him into time has look two more go see way could people my than first been who its now find long down day did get
come may part over new take only little work know place year live me back give most very after thing our just name good
great where help through much before line right too mean old any same tell follow want show also around form three small
set put end does another large must big even such because turn here why ask read need land different home us move
try kind hand picture again change off play air away animal house point page letter mother answer study still learn should
world`)
}
