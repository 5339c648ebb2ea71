package workloads

import (
	"slices"
	"strconv"
	"time"
)

// rounds lists the conversations of every round, in order. Those of the first keep
// their ids, so that one round is what the manifest says without rounds.
func (m *Manifest) rounds() []Conversation {
	if m.Rounds == nil {
		return m.Conversations
	}
	var all []Conversation
	for k := range m.Rounds.Count {
		for _, c := range m.Conversations {
			all = append(all, c.again(k, time.Duration(m.Rounds.Every)))
		}
	}
	return all
}

// again is c as it is said in the round after k others.
func (c Conversation) again(k int, every time.Duration) Conversation {
	if k == 0 {
		return c
	}
	name := func(id string) string { return id + "-" + strconv.Itoa(k+1) }
	due := func(t *Trigger) *Trigger {
		if t == nil {
			return nil
		}
		moved := *t
		if t.Request == "" {
			moved.Delay += Duration(time.Duration(k) * every)
		} else {
			moved.Request = name(t.Request)
		}
		return &moved
	}
	c.ID, c.Steps = name(c.ID), slices.Clone(c.Steps)
	for i := range c.Steps {
		s := &c.Steps[i]
		s.ID = name(s.ID)
		if i == 0 && s.After == nil {
			s.After = &Trigger{}
		}
		s.After, s.Cancel = due(s.After), due(s.Cancel)
	}
	return c
}
