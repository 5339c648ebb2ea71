package serve

import (
	"fmt"
	"os"
	"path/filepath"

	"interlude/engine"
	"interlude/sched/chat"
)

// builtin is the vocabulary that ships with the house: the stand-in's.
const builtin = "builtin"

// OpenTokenizer opens what the config's key tokenizer names: "builtin", a folder
// with a tokenizer.json, or a model's GGUF file. A vocabulary whose chat template
// cannot be rendered is refused at once.
func OpenTokenizer(path string) (chat.Tokenizer, error) {
	if path == "" || path == builtin {
		return chat.Builtin(), nil
	}
	tok, err := openVocabulary(path)
	if err == nil {
		_, err = chat.Render(tok, chat.Conversation{}, chat.Options{})
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", filepath.Base(path), err)
	}
	return tok, nil
}

func openVocabulary(path string) (chat.Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf(`%w; give "builtin", a folder with a tokenizer.json, or a GGUF file`, err)
	}
	if info.IsDir() {
		return chat.FromFolder(os.DirFS(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tok, err := chat.FromGGUF(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%w; a vocabulary is a GGUF file or a folder with a tokenizer.json", err)
	}
	return tok, nil
}

// vocabularyFits compares the tokenizer with what a loaded engine says of its
// model: with another one's ids the model would read noise.
func vocabularyFits(info engine.Info, tok chat.Tokenizer) *fault {
	n, told := info.Int(engine.KeyVocabulary)
	if !told || tok.Size() <= n { // models pad their vocabularies
		return nil
	}
	return &fault{status: 500, kind: kindServer, message: fmt.Sprintf(
		"the engine's model has a vocabulary of %d tokens, the tokenizer %s has %d: set the config's tokenizer to the model's own", n, tok.Name(), tok.Size())}
}
