package report

import "io/fs"

// Render makes README.md and its plots from a judged run directory.
func Render(fsys fs.FS) (Files, error) {
	s, err := load(fsys)
	if err != nil {
		return nil, err
	}
	files := Files{}
	pictures, err := s.pictures()
	if err != nil {
		return nil, err
	}
	for _, x := range pictures {
		files[x.file] = x.svg
	}
	var p page
	s.first(&p, pictures)
	s.whatWasRun(&p)
	s.method(&p)
	if !s.invalid() {
		if err := s.numbers(&p); err != nil {
			return nil, err
		}
	}
	s.answers(&p)
	s.notes(&p)
	s.notRun(&p)
	s.limits(&p)
	s.reproduce(&p)
	if s.invalid() {
		p.heading(2, "Appendix: numbers of an invalid run")
		p.para("They are kept so that nothing disappears. They support no claim, for the reasons at the top of this page.")
		if s.run.Kind == "ab" {
			s.effects(&p)
		} else {
			s.oneArm(&p)
		}
		for i := range pictures {
			pictures[i].show(&p)
		}
		if err := s.numbers(&p); err != nil {
			return nil, err
		}
	}
	files["README.md"] = []byte(p.String())
	return files, nil
}

// numbers are the sections that a run's timings fill.
func (s *source) numbers(p *page) error {
	s.cells(p)
	s.beside(p)
	s.decision(p)
	s.classes(p)
	if err := s.waterfall(p); err != nil {
		return err
	}
	s.whoPays(p)
	s.cancels(p)
	s.parks(p)
	s.drift(p)
	return nil
}
