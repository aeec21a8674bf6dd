//go:build ui

package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// programs are browsers that the tests can drive, the first that is found.
var programs = []string{"chromium-headless-shell", "headless-shell", "chromium", "google-chrome"}

// A chrome is a browser without a window. Its tabs have no cookies in common.
type chrome struct{ ctx context.Context }

// startChrome skips the test on a host without a browser.
func startChrome(t *testing.T) chrome {
	t.Helper()
	var program string
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skipf("no browser: install chromium-headless-shell (any of %s is taken)", strings.Join(programs, ", "))
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.IgnoreCertErrors, // the authority of the test's master is in no store
		chromedp.Flag("disable-dev-shm-usage", true),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("cannot start %s: %v", program, err)
	}
	return chrome{ctx}
}

// A look is how somebody looks at pages.
type look struct {
	width    int64
	dark     bool
	noScript bool
}

var looks = []look{{width: 1440}, {width: 1440, dark: true}, {width: 390}, {width: 390, dark: true}}

func (l look) scheme() string {
	if l.dark {
		return "dark"
	}
	return "light"
}

func (l look) String() string { return fmt.Sprintf("%s-%d", l.scheme(), l.width) }

// A tab is a tab of a browser in which somebody may be logged in. It keeps what the browser complains of.
type tab struct {
	t   *testing.T
	f   *fleet
	ctx context.Context

	close func() // closes the tab

	mu     sync.Mutex // guards what follows
	faults []string
	asked  []string // paths of requests since the last navigation
}

// tab opens an empty tab. With another, it shares the cookies of that.
func (c chrome) tab(t *testing.T, f *fleet, l look, beside *tab) *tab {
	t.Helper()
	parent, options := c.ctx, []chromedp.ContextOption{chromedp.WithNewBrowserContext()}
	if beside != nil {
		parent, options = beside.ctx, nil
	}
	ctx, leave := chromedp.NewContext(parent, options...)
	t.Cleanup(leave)
	ctx, cancel := context.WithTimeout(ctx, patience*3)
	t.Cleanup(cancel)
	b := &tab{t: t, f: f, ctx: ctx, close: leave}
	if err := chromedp.Listen(ctx, b.onEvent); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme()}},
	})
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.noScript})
	b.run(chromedp.EmulateViewport(l.width, 900))
	return b
}

func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) onEvent(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = fmt.Sprintf("console: %s", e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		if e.Type == network.ResourceTypeDocument {
			b.asked = nil
		}
		b.asked = append(b.asked, strings.TrimPrefix(e.Request.URL, "https://"+b.f.address))
	case *network.EventResponseReceived:
		if e.Response.Status >= http.StatusBadRequest {
			fault = fmt.Sprintf("status %d: %s", e.Response.Status, e.Response.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			fault = "request failed: " + e.ErrorText
		}
	}
	if fault != "" {
		b.faults = append(b.faults, fault)
	}
}

// takeFaults returns what the browser complained of since the last call.
func (b *tab) takeFaults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// askedSinceOpened returns the paths of the requests since the last navigation.
func (b *tab) askedSinceOpened() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// takeAsked is askedSinceOpened, which forgets what it returns.
func (b *tab) takeAsked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asked
	b.asked = nil
	return asked
}

// until waits until an expression in the page is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	for !eval[bool](b, "Boolean("+expression+")") {
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("never true: %s; faults: %q", expression, b.takeFaults())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			b.t.Fatalf("the tab is not as it should be after %v; faults: %q", patience*3, b.takeFaults())
		}
		b.t.Fatal(err)
	}
}

// login logs a person in by the link of "zester console --print"; without scripts, by its field.
func (b *tab) login(name string, l look) {
	b.t.Helper()
	code := b.f.code(b.t, b.f.people[name]).Code
	if l.noScript {
		b.run(
			chromedp.Navigate("https://"+b.f.address+"/login"),
			chromedp.SendKeys(testID("login-code"), code+"\r"),
			chromedp.WaitReady(testID("page-now")),
		)
		return
	}
	b.run(
		chromedp.Navigate("https://"+b.f.address+"/login#"+code),
		chromedp.WaitReady(testID("page-now")),
	)
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate("https://" + b.f.address + path))
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		b.t.Fatalf("%v; faults: %q", err, b.takeFaults())
	}
	return value
}

// testID selects the first element with a value of data-testid.
func testID(id string) chromedp.CSS { return chromedp.CSS(`[data-testid="` + id + `"]`) }
