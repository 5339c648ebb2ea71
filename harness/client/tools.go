package client

import (
	"fmt"
	"strings"

	"interlude/results"
)

// fragment is a piece of one tool call. A missing index is not 0.
type fragment struct {
	index     *int
	id        string
	name      string
	arguments string
}

// toolSet joins fragments to calls: a known id decides; a new id begins a new
// call, whatever its index says; without an id the latest call of that index is
// meant, and without either the latest call of all. Indexes may have holes.
type toolSet struct {
	calls []*call
	items map[string]string // Responses: item id → call id
}

type call struct {
	index     *int
	id        string
	name      string
	arguments strings.Builder
	unstable  []string
}

func (s *toolSet) add(f fragment) {
	c := s.find(f)
	if c == nil {
		c = &call{index: f.index, id: f.id}
		if f.id == "" {
			c.unstable = append(c.unstable, "no id")
		}
		s.calls = append(s.calls, c)
	}
	if f.index != nil && c.index != nil && *f.index != *c.index {
		c.changed("index", *c.index, *f.index)
	}
	switch {
	case c.name == "":
		c.name = f.name
	case f.name != "" && f.name != c.name:
		c.changed("name", c.name, f.name)
	}
	c.arguments.WriteString(f.arguments)
}

func (s *toolSet) find(f fragment) *call {
	for i := len(s.calls) - 1; i >= 0; i-- {
		c := s.calls[i]
		switch {
		case f.id != "":
			if c.id == f.id {
				return c
			}
		case f.index == nil:
			return c
		case c.index != nil && *c.index == *f.index:
			return c
		}
	}
	return nil
}

func (c *call) changed(what string, was, is any) {
	note := fmt.Sprintf("%s %v became %v", what, was, is)
	if len(c.unstable) == 0 || c.unstable[len(c.unstable)-1] != note {
		c.unstable = append(c.unstable, note)
	}
}

// name remembers under which item id the fragments of a call will come.
func (s *toolSet) name(item, call string) {
	if s.items == nil {
		s.items = map[string]string{}
	}
	s.items[item] = call
}

// callOf is the call id of an item, "" for an item never announced.
func (s *toolSet) callOf(item string) string { return s.items[item] }

// holds says whether the call's arguments are exactly these.
func (s *toolSet) holds(id string, index *int, arguments string) bool {
	c := s.find(fragment{id: id, index: index})
	return c != nil && c.arguments.String() == arguments
}

func (s *toolSet) record() []results.ToolCall {
	var out []results.ToolCall
	for _, c := range s.calls {
		out = append(out, results.ToolCall{
			Index: c.index, ID: c.id, Name: c.name, Arguments: c.arguments.String(), Unstable: strings.Join(c.unstable, "; "),
		})
	}
	return out
}
