// Package constrain holds an answer to a form: a JSON schema, any JSON object, or
// tool calls. It turns the form into token masks.
//
// It promises:
//
//   - Whatever ends inside the masks is an instance of the form: sound, though not
//     complete (blanks are limited, an object with declared properties is closed).
//   - A mask is a function of the ids emitted so far and of nothing else, so a
//     park, a resume or another process replays it.
//   - A schema outside the subset is refused with the path of the keyword.
//   - Time and memory are bounded, whatever a schema says: a form that can be followed
//     in too many ways at once ends as ErrForm.
//
// A Grammar is a pushdown automaton over bytes and markup symbols, made
// deterministic as it is walked: a state is a set of stacks, stacks and states are
// interned, so that a step is an array index, and forgotten when there are many. A Vocabulary lists the tokens in the
// order of their bytes, so that a mask costs one walk over shared prefixes.
//
// The subset: type (one or several), properties, required, additionalProperties,
// items, minItems, maxItems, minLength, maxLength, enum, const, anyOf, $ref into
// $defs or definitions, and annotations.
//
// Start reading at schema.go (what a form may say), then grammar.go (stacks and
// steps) and mask.go (from states to tokens). The package is pure and imports
// nothing of ours.
package constrain
