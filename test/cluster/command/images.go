package command

import (
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"kube-lab.dev/kube-lab/test/cluster/images"
	"kube-lab.dev/kube-lab/test/cluster/labs"
	"kube-lab.dev/kube-lab/test/cluster/node"
)

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// imageList gives the images that the labs need. The names are those of the
// manifests; nginx, redis, busybox and git are stand-ins made from Debian
// packages. built are the folders of binaries by the name of their module,
// argoSource is the folder of Argo CD's own module.
func imageList(wanted which, built map[string]string, argoSource string) []images.Image {
	program := func(module, name string) string { return filepath.Join(built[module], name) }
	list := []images.Image{static(node.PauseImage, program("pause", "pause"), "/pause", "65535:65535"), busyboxImage()}
	if wanted != noLab {
		list = append(list,
			static("registry.k8s.io/coredns/coredns:v1.14.3", program("coredns", "coredns"), "/coredns", ""),
			static("reg.kyverno.io/kyverno/kyverno:"+labs.KyvernoVersion, program("kyverno", "kyverno"), "/ko-app/kyverno", "65532"),
			static("reg.kyverno.io/kyverno/kyvernopre:"+labs.KyvernoVersion, program("kyverno", "kyverno-init"), "/ko-app/kyverno-init", "65532"),
			nginxImage(), gitImage())
	}
	if wanted == allLabs {
		list = append(list, argocdImage(program("argocd", "argocd"), argoSource), redisImage())
	}
	return list
}

// static is an image of one statically linked program.
func static(ref, from, to, user string) images.Image {
	return images.Image{
		Ref:     ref,
		Files:   []images.File{{From: from, To: to}},
		Folders: []images.Folder{{Path: "/tmp", Mode: tmpMode}},
		Config:  v1.Config{Entrypoint: []string{to}, User: user, Env: []string{searchPath}},
	}
}

// accounts are the files that name a user besides root.
func accounts(name, id, home string) []images.Text {
	return []images.Text{
		{Path: "/etc/passwd", Text: "root:x:0:0:root:/root:/bin/sh\n" + name + ":x:" + id + ":" + id + "::" + home + ":/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n"},
		{Path: "/etc/group", Text: "root:x:0:\n" + name + ":x:" + id + ":\nnogroup:x:65534:\n"},
	}
}

// argocdImage has the layout that Argo CD's own image promises to its parts:
// one program under many names, git, gpg, and the wrapper scripts without which
// the repo-server does not work.
func argocdImage(program, source string) images.Image {
	image := images.Image{
		Ref:      "quay.io/argoproj/argocd:v3.5.2",
		Packages: []string{"bash", "busybox", "git", "gpg", "gpg-agent", "gpgconf", "tini"},
		Files: []images.File{
			{From: program, To: "/usr/local/bin/argocd"},
			{From: filepath.Join(source, "hack/gpg-wrapper.sh"), To: "/usr/local/bin/gpg-wrapper.sh"},
			{From: filepath.Join(source, "hack/git-verify-wrapper.sh"), To: "/usr/local/bin/git-verify-wrapper.sh"},
		},
		Texts: append(accounts("argocd", "999", "/home/argocd"),
			images.Text{Path: "/app/config/ssh/ssh_known_hosts"}),
		Links: []images.Link{{Path: "/etc/ssh/ssh_known_hosts", Target: "/app/config/ssh/ssh_known_hosts"}},
		Folders: []images.Folder{
			{Path: "/tmp", Mode: tmpMode},
			{Path: "/home/argocd", Mode: 0o775, UID: 999},
			{Path: "/app/config/tls", Mode: 0o755},
			{Path: "/app/config/gpg/source", Mode: 0o755},
			{Path: "/app/config/gpg/keys", Mode: 0o700, UID: 999},
		},
		Config: v1.Config{
			Entrypoint: []string{"/usr/bin/tini", "--"}, User: "999", WorkingDir: "/home/argocd",
			Env: []string{searchPath, "USER=argocd", "ARGOCD_USER_ID=999", "GRPC_ENABLE_TXT_SERVICE_CONFIG=false"},
		},
	}
	for _, name := range []string{
		"server", "repo-server", "cmp-server", "application-controller", "dex", "notifications",
		"applicationset-controller", "k8s-auth", "commit-server",
	} {
		image.Links = append(image.Links, images.Link{Path: "/usr/local/bin/argocd-" + name, Target: "/usr/local/bin/argocd"})
	}
	return image
}

func redisImage() images.Image {
	return images.Image{
		Ref:      "public.ecr.aws/docker/library/redis:8.2.3-alpine",
		Packages: []string{"redis-server", "busybox"},
		Texts:    accounts("redis", "999", "/data"),
		Folders:  []images.Folder{{Path: "/tmp", Mode: tmpMode}, {Path: "/data", Mode: 0o755, UID: 999}},
		Config: v1.Config{
			Entrypoint: []string{"/usr/bin/redis-server"}, WorkingDir: "/data", Env: []string{searchPath},
		},
	}
}

// nginxImage keeps what labs rely on in the official image: the folder of the
// pages, the files of the configuration, and logs on the container's output.
func nginxImage() images.Image {
	return images.Image{
		Ref:      "docker.io/library/nginx:1.27-alpine",
		Packages: []string{"nginx-light", "busybox"},
		Texts: append(accounts("nginx", "101", "/var/cache/nginx"),
			images.Text{Path: "/etc/nginx/nginx.conf", Text: nginxConf},
			images.Text{Path: "/etc/nginx/conf.d/default.conf", Text: nginxSite},
			images.Text{Path: "/usr/share/nginx/html/index.html", Text: "<!DOCTYPE html>\n<title>nginx</title>\n<h1>nginx works</h1>\n"},
		),
		Links: []images.Link{
			{Path: "/var/log/nginx/access.log", Target: "/dev/stdout"},
			{Path: "/var/log/nginx/error.log", Target: "/dev/stderr"},
			{Path: "/var/run", Target: "/run"},
		},
		Folders: []images.Folder{
			{Path: "/tmp", Mode: tmpMode},
			{Path: "/run", Mode: 0o755},
			{Path: "/var/cache/nginx", Mode: 0o755, UID: 101},
			{Path: "/var/lib/nginx", Mode: 0o755, UID: 101},
		},
		Config: v1.Config{
			Cmd: []string{"nginx", "-g", "daemon off;"}, StopSignal: "SIGQUIT",
			Env: []string{searchPath}, ExposedPorts: map[string]struct{}{"80/tcp": {}},
		},
	}
}

const nginxConf = `user nginx;
worker_processes auto;
error_log /var/log/nginx/error.log notice;
pid /run/nginx.pid;

events {
    worker_connections 1024;
}

http {
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log /var/log/nginx/access.log;
    sendfile on;
    keepalive_timeout 65;
    include /etc/nginx/conf.d/*.conf;
}
`

const nginxSite = `server {
    listen 80;
    server_name localhost;

    location / {
        root /usr/share/nginx/html;
        index index.html index.htm;
    }
}
`

func gitImage() images.Image {
	return images.Image{
		Ref:      "docker.io/library/buildpack-deps:bookworm-scm",
		Packages: []string{"bash", "busybox", "curl", "git"},
		Texts:    accounts("git", "1000", "/home/git"),
		Folders:  []images.Folder{{Path: "/tmp", Mode: tmpMode}, {Path: "/home/git", Mode: 0o755, UID: 1000}},
		Config:   v1.Config{Cmd: []string{"bash"}, Env: []string{searchPath}},
	}
}

func busyboxImage() images.Image {
	return images.Image{
		Ref:      "docker.io/library/busybox:1.36",
		Packages: []string{"busybox"},
		Texts:    accounts("user", "1000", "/tmp"),
		Folders:  []images.Folder{{Path: "/tmp", Mode: tmpMode}},
		Config:   v1.Config{Cmd: []string{"sh"}, Env: []string{searchPath}},
	}
}

// tmpMode lets every user make files and nobody delete those of others.
const tmpMode = 0o777 | os.ModeSticky
