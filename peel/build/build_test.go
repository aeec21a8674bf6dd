package build

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionOfAPackageIsThatOfTheLinker(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.0.0-20261124224906-07a7f4d1cc3a"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "07a7f4d1cc3a003a85afc312e0386da9be694b83"},
			{Key: "vcs.time", Value: "2026-11-24T22:49:06Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	got := Info{Version: "0.2.0"}.or(info)
	want := Info{
		Version: "0.2.0", Commit: "07a7f4d1cc3a003a85afc312e0386da9be694b83+dirty", Date: "2026-11-24T22:49:06Z", Go: "go1.26.0",
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}

	stamped := Info{Version: "0.2.0", Commit: "4536270", Date: "2026-11-20T00:00:00Z"}
	if got := stamped.or(info); got.Commit != stamped.Commit || got.Date != stamped.Date {
		t.Errorf("a package has commit and date %+v, want those of the linker", got)
	}

	if got := (Info{}).or(info).Version; got != info.Main.Version {
		t.Errorf("without a version of a package the version is %q, want that of Go", got)
	}
	if got := (Info{}).or(&debug.BuildInfo{}); got != (Info{Version: "(devel)"}) {
		t.Errorf("%+v", got)
	}
}
