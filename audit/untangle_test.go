package audit

import (
	"strings"
	"testing"

	"interlude/results"
	"interlude/sched"
)

// A long request is sent first and arrives last, since its server has more to read;
// one that left before it was told keeps its place.
func TestOvertakingRequestsAreToldApart(t *testing.T) {
	rec := func(id string, prompt int) *results.Record {
		r := &results.Record{ID: id}
		if prompt > 0 {
			r.Usage = &results.Usage{Prompt: prompt}
		}
		return r
	}
	for _, c := range []struct {
		name    string
		prompts []int // as they arrived
		sent    []*results.Record
		want    string
	}{
		{"in order", []int{10, 20, 30}, []*results.Record{rec("a", 10), rec("b", 20), rec("c", 30)}, "a b c"},
		{"overtaken once", []int{373, 35042}, []*results.Record{rec("long", 35042), rec("probe", 373)}, "probe long"},
		{"overtaken twice", []int{166, 32693, 136297}, []*results.Record{rec("c", 136297), rec("b", 32693), rec("a", 166)}, "a b c"},
		{"one left early", []int{10, 20, 10}, []*results.Record{rec("gone", 0), rec("b", 20), rec("c", 10)}, "gone b c"},
		{"a server that counts otherwise", []int{11, 21}, []*results.Record{rec("a", 10), rec("b", 20)}, "a b"},
	} {
		tl := tale{prompt: map[sched.ID]int{}}
		for i, p := range c.prompts {
			tl.arrivals = append(tl.arrivals, sched.ID(i+1))
			tl.prompt[sched.ID(i+1)] = p
		}
		tl.untangle(c.sent)
		var ids []string
		for _, r := range c.sent {
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
